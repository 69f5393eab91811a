#include "cli/config/saved_profile.h"

#include <optional>

#include "cli/config/config_file.h"
#include "cli/config/write_config.h"
#include "config/toml_reader.h"
#include "sys/text_file.h"

namespace osb::cli {
namespace {

namespace fs = std::filesystem;

struct ConfigText {
  std::string text;
  config::TomlReader toml;
};

// Nothing: there is no file.
Expected<std::optional<ConfigText>> read_config(const fs::path& file) {
  auto text = sys::read_text(file);
  if (!text && text.error().code == Code::NotFound) return std::nullopt;
  if (!text) return failed(text.error());
  auto toml = config::TomlReader::parse(*text, file);
  if (!toml) return failed(toml.error());
  return ConfigText{std::move(*text), std::move(*toml)};
}

// The first name that is free, or has the same address already.
std::string name_for(config::TomlReader& toml, const std::string& domain) {
  std::string with_port = "local-" + domain.substr(domain.rfind(':') + 1);
  for (std::string name : {std::string("local"), with_port}) {
    const std::string table = "profiles." + name;
    if (!toml.has(table) || toml.string(table, "domain") == domain) return name;
  }
  return with_port;
}

bool names_other_server(config::TomlReader& toml, const std::string& name, const std::string& domain) {
  const std::string profile = toml.string("connection", "profile").value_or("");
  if (!profile.empty()) return profile != name;
  const std::string general = toml.string("connection", "domain").value_or("");
  return !general.empty() && general != domain;
}

}  // namespace

Expected<SaveOutcome> save_profile(const fs::path& file, const ProfileValues& values) {
  auto config = read_config(file);
  if (!config) return failed(config.error());
  if (!*config) {
    auto toml = config::TomlReader::parse("", file);
    if (!toml) return failed(toml.error());
    config->emplace(std::string(config_template()), std::move(*toml));
  }
  config::TomlReader& toml = (*config)->toml;
  SaveOutcome out;
  out.name = name_for(toml, values.domain);
  out.is_default = !names_other_server(toml, out.name, values.domain);
  std::vector<std::pair<std::string, std::string>> lines = {{"profiles." + out.name + ".domain", values.domain},
                                                            {"profiles." + out.name + ".api_key", values.api_key}};
  if (out.is_default) lines.emplace_back("connection.profile", out.name);
  std::string text = (*config)->text;
  for (const auto& [key, value] : lines) {
    auto changed = set_in_config(text, key, value);
    if (!changed) return failed(changed.error());
    text = std::move(*changed);
  }
  if (auto valid = config::TomlReader::parse(text, file); !valid) return failed(valid.error());
  if (text == (*config)->text) return out;
  if (auto written = write_config(file, text, ConfigAccess::Private); !written) return failed(written.error());
  return out;
}

Expected<void> remove_profile(const fs::path& file, const std::string& name, const ProfileValues& values) {
  auto config = read_config(file);
  if (!config) return failed(config.error());
  const std::string table = "profiles." + name;
  if (!*config || (*config)->toml.string(table, "domain") != values.domain ||
      (*config)->toml.string(table, "api_key") != values.api_key) {
    return {};
  }
  std::string text = remove_table((*config)->text, table);
  if ((*config)->toml.string("connection", "profile") == name) text = unset_in_config(text, "connection", "profile");
  if (auto valid = config::TomlReader::parse(text, file); !valid) return failed(valid.error());
  return write_config(file, text, ConfigAccess::AsBefore);
}

}  // namespace osb::cli
