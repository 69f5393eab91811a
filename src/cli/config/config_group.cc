#include <filesystem>

#include <boost/json/serialize.hpp>

#include "cli/command/shell_words.h"
#include "cli/commands.h"
#include "cli/config/config_file.h"
#include "cli/config/config_keys.h"
#include "cli/config/write_config.h"
#include "config/toml_reader.h"
#include "sys/text_file.h"

namespace osb::cli {
namespace {

const std::vector<Format> kFormats = {Format::Table, Format::Json, Format::Yaml};

void add_init(Command& group, CommandIo& context) {
  struct Options {
    bool force = false;
  };
  Command& command = group.command("init", "Create a default configuration file.");
  Options& options = command.values<Options>();
  command.flag("--force", "Overwrite an existing file.", options.force);
  command.formats(kFormats);
  command.action([&context, &options]() -> Outcome {
    const auto path = context.config_path();
    if (!options.force && std::filesystem::exists(path)) {
      context.out().warning("Config file already exists at " + path.string() + ". Use --force to overwrite.");
      return 0;
    }
    if (auto written = write_config(path, config_template(), ConfigAccess::AsBefore); !written)
      return failed(written.error());
    context.out().ok("Config file created: " + path.string());
    return 0;
  });
}

void add_show(Command& group, CommandIo& context) {
  Command& command = group.command("show", "Show the resolved configuration.");
  command.formats(kFormats);
  command.action([&context]() -> Outcome {
    const auto loaded = context.load_config();
    const Config& config = context.config();
    const auto text = [](const std::optional<std::string>& value) {
      return value ? json::value(*value) : json::value(nullptr);
    };
    json::object shown{{"api_key", config.api_key ? json::value(mask_key(*config.api_key)) : json::value(nullptr)},
                       {"domain", text(config.domain)},
                       {"protocol", config.protocol},
                       {"request_timeout", config.request_timeout},
                       {"use_server_proxy", config.use_server_proxy},
                       {"color", config.color},
                       {"default_image", text(config.default_image)},
                       {"default_timeout", text(config.default_timeout)},
                       {"config_path", context.config_path().string()},
                       {"config_file_exists", std::filesystem::exists(context.config_path())}};
    if (config.profile) shown["profile"] = *config.profile;
    if (config.withheld) shown["withheld_key"] = config.withheld->source + ", of " + config.withheld->domain;
    // Without a file that can be read, only the defaults are left to show.
    if (!loaded) shown["problem"] = loaded.error().message;
    context.out().object(shown, "Resolved Configuration");
    return loaded ? Outcome(0) : Outcome(failed(loaded.error()));
  });
}

void add_env(Command& group, CommandIo& context) {
  Command& command = group.command("env", "Print the server's address and key as variables for SDKs.");
  command.details("In a shell: eval \"$(osb config env)\". The output contains the API key. Keep it secret.");
  command.formats(kFormats);
  command.action([&context]() -> Outcome {
    if (const auto loaded = context.load_config(); !loaded) return failed(loaded.error());
    const Config& config = context.config();
    json::object variables{{"OPEN_SANDBOX_DOMAIN", config.domain.value_or(kDefaultDomain)},
                           {"OPEN_SANDBOX_PROTOCOL", config.protocol}};
    if (config.api_key) variables["OPEN_SANDBOX_API_KEY"] = *config.api_key;
    if (context.out().structured()) {
      context.out().data(variables);
      return 0;
    }
    std::string said;
    for (const auto& [name, value] : variables) {
      said += "export " + std::string(name) + "=" + shell_quote(value.get_string()) + "\n";
    }
    context.out().text(said);
    if (!config.api_key) context.out().warning("There is no API key for this server.");
    return 0;
  });
}

// The file's text; it need not be valid.
Expected<std::string> read_file(const std::filesystem::path& path) {
  auto text = sys::read_text(path.string());
  if (!text && text.error().code == Code::NotFound) {
    return invalid("Config file not found: " + path.string() + ".", "Run 'osb config init' first.");
  }
  if (!text) return failed(text.error());
  return std::move(*text);
}

// Writes only what can be read again: a file that was broken before may be mended, none is broken.
Expected<void> replace_config(const std::filesystem::path& path, const std::string& text, ConfigAccess access) {
  if (auto valid = config::TomlReader::parse(text, path); !valid) {
    return invalid(valid.error().message,
                   "Correct that line of " + path.string() + ", or write a new file with 'osb config init --force'.");
  }
  return write_config(path, text, access);
}

void add_get(Command& group, CommandIo& context) {
  struct Options {
    std::string key;
  };
  Command& command = group.command("get", "Print a value of the file, such as: connection.domain.");
  Options& options = command.values<Options>();
  command.argument("KEY", options.key, "section.field, or profiles.NAME.field");
  command.formats(kFormats);
  command.action([&context, &options]() -> Outcome {
    const auto path = context.config_path();
    const auto key = find_config_key(options.key);
    if (!key) return failed(key.error());
    const auto text = read_file(path);
    if (!text) return failed(text.error());
    auto toml = config::TomlReader::parse(*text, path);
    if (!toml) return failed(toml.error());
    json::value value;
    if (key->kind == ConfigKind::Seconds) {
      if (const auto number = toml->integer(key->section, key->field, 1, kMaxRequestTimeout)) value = *number;
    } else if (key->kind == ConfigKind::Switch) {
      if (const auto on = toml->boolean(key->section, key->field)) value = *on;
    } else if (const auto words = toml->string(key->section, key->field)) {
      value = json::string(*words);
    }
    if (auto read = toml->finish(); !read) return failed(read.error());
    if (value.is_null()) return invalid(options.key + " is not set in " + path.string() + ".");
    if (context.out().structured()) {
      context.out().data(json::object{{"key", options.key}, {"value", value}});
    } else {
      context.out().text((value.is_string() ? std::string(value.get_string()) : json::serialize(value)) + "\n");
    }
    return 0;
  });
}

void add_set(Command& group, CommandIo& context) {
  struct Options {
    std::string key, value;
  };
  Command& command = group.command("set", "Set a value, such as: connection.domain localhost:9090.");
  command.details(
      "Keys: connection.api_key, connection.domain, connection.protocol, connection.request_timeout, "
      "connection.use_server_proxy, connection.profile, output.color, defaults.image, defaults.timeout. A profile has "
      "the same fields: profiles.NAME.domain.");
  Options& options = command.values<Options>();
  command.argument("KEY", options.key, "section.field, or profiles.NAME.field");
  command.argument("VALUE", options.value);
  command.formats(kFormats);
  command.action([&context, &options]() -> Outcome {
    const auto path = context.config_path();
    const auto key = find_config_key(options.key);
    if (!key) return failed(key.error());
    const auto value = checked_value(*key, options.value);
    if (!value) return failed(value.error());
    const auto text = read_file(path);
    if (!text) return failed(text.error());
    const auto changed = set_in_config(*text, options.key, *value);
    if (!changed) return failed(changed.error());
    auto toml = config::TomlReader::parse(*changed, path);
    if (toml && key->kind == ConfigKind::Profile && !toml->has("profiles." + *value)) {
      return invalid("There is no profile '" + *value + "' in " + path.string() + ".",
                     "Make it first: osb config set profiles." + *value + ".domain DOMAIN");
    }
    const auto access = key->field == "api_key" ? ConfigAccess::Private : ConfigAccess::AsBefore;
    if (auto written = replace_config(path, *changed, access); !written) return failed(written.error());
    context.out().ok("Set " + options.key + " = " + (key->field == "api_key" ? mask_key(*value) : *value));
    const std::string profile = toml ? toml->string("connection", "profile").value_or("") : "";
    if (key->section == "connection" && key->kind != ConfigKind::Profile && !profile.empty() &&
        toml->string("profiles." + profile, key->field)) {
      context.out().warning("Profile '" + profile + "' is the default and has its own " + key->field +
                            ". To leave it: osb config unset connection.profile");
    }
    return 0;
  });
}

void add_unset(Command& group, CommandIo& context) {
  struct Options {
    std::string key;
  };
  Command& command = group.command("unset", "Remove a value, or a whole profile: profiles.NAME.");
  Options& options = command.values<Options>();
  command.argument("KEY", options.key, "section.field, profiles.NAME.field or profiles.NAME");
  command.formats(kFormats);
  command.action([&context, &options]() -> Outcome {
    const auto path = context.config_path();
    constexpr std::string_view kProfiles = "profiles.";
    const bool profile =
        options.key.starts_with(kProfiles) && is_bare_key(std::string_view(options.key).substr(kProfiles.size()));
    // A key that osb does not know may stand in the file as well: it can be removed, too.
    const auto dot = options.key.rfind('.');
    if (dot == std::string::npos) return failed(find_config_key(options.key).error());
    const auto text = read_file(path);
    if (!text) return failed(text.error());
    const std::string changed = profile
                                    ? remove_table(*text, options.key)
                                    : unset_in_config(*text, options.key.substr(0, dot), options.key.substr(dot + 1));
    if (changed == *text) {
      if (const auto key = find_config_key(options.key); !key && !profile) return failed(key.error());
      context.out().info(options.key + " is not set in " + path.string() + ".");
      return 0;
    }
    if (auto written = replace_config(path, changed, ConfigAccess::AsBefore); !written) return failed(written.error());
    context.out().ok("Removed " + options.key);
    return 0;
  });
}

}  // namespace

void add_config_group(Command& root, CommandIo& context) {
  Command& group = root.command("config", "Manage the configuration of osb.").without_config();
  add_init(group, context);
  add_show(group, context);
  add_env(group, context);
  add_get(group, context);
  add_set(group, context);
  add_unset(group, context);
}

}  // namespace osb::cli
