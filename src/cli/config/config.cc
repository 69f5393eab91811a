#include "cli/config/config.h"

#include <cstdlib>

#include "api/json.h"
#include "base/parse_number.h"
#include "cli/config/config_keys.h"
#include "client/key_origin.h"
#include "config/toml_reader.h"
#include "sys/text_file.h"

namespace osb::cli {
namespace {

std::optional<std::string> non_empty(std::optional<std::string> text) {
  if (text && text->empty()) text.reset();
  return text;
}

template <typename T>
T first(std::optional<T> a, std::optional<T> b, std::optional<T> c, T otherwise) {
  return a ? *a : b ? *b : c ? *c : otherwise;
}

std::optional<std::string> first_text(std::optional<std::string> a, std::optional<std::string> b,
                                      std::optional<std::string> c) {
  a = non_empty(std::move(a));
  b = non_empty(std::move(b));
  return a ? a : b ? b : non_empty(std::move(c));
}

std::optional<std::int64_t> parse_integer(const std::optional<std::string>& text) {
  const auto value = text ? parse_number<std::int64_t>(*text) : std::nullopt;
  return value && *value > 0 && *value <= kMaxRequestTimeout ? value : std::nullopt;
}

std::optional<bool> parse_switch(const std::optional<std::string>& text) {
  return text ? api::parse_lax_bool(*text) : std::nullopt;
}

// The values of the file; the profile's table comes before the general ones.
struct FileValues {
  std::optional<std::string> profile;  // that was used
  std::string key_source;
  std::optional<std::string> key_domain;  // that stands beside the key
  std::optional<std::string> api_key, domain, protocol, image, timeout;
  std::optional<std::int64_t> request_timeout;
  std::optional<bool> use_server_proxy, color;
};

Expected<FileValues> read_file(const std::filesystem::path& path, std::optional<std::string> profile) {
  FileValues out;
  const auto no_profile = [&](const std::string& hint) {
    return invalid("There is no profile '" + *profile + "' in " + path.string() + ".",
                   "Add a table [profiles." + *profile + "] or leave out " + hint + ".");
  };
  const std::string chosen = "--profile and OPEN_SANDBOX_PROFILE";
  auto text = sys::read_text(path.string());
  if (!text && text.error().code == Code::NotFound) {
    if (profile) return no_profile(chosen);
    return out;
  }
  const std::string hint =
      "Correct it with 'osb config set KEY VALUE' or 'osb config unset KEY', or write a new one with 'osb config init "
      "--force'.";
  if (!text) return failed(text.error());
  auto toml = config::TomlReader::parse(*text, path);
  if (!toml) return failed(toml.error(), hint);
  const bool by_default = !profile;
  if (by_default) profile = non_empty(toml->string("connection", "profile"));
  const std::string table = profile ? "profiles." + *profile : "";
  if (profile && !toml->has(table)) {
    return no_profile(by_default ? "connection.profile: osb config unset connection.profile" : chosen);
  }
  out.profile = profile;
  const auto text_of = [&](const char* section, const char* key) {
    auto own = profile ? toml->string(table, key) : std::nullopt;
    return own ? own : toml->string(section, key);
  };
  const auto bool_of = [&](const char* section, const char* key) {
    auto own = profile ? toml->boolean(table, key) : std::nullopt;
    return own ? own : toml->boolean(section, key);
  };
  const auto integer_of = [&](const char* section, const char* key) {
    auto own = profile ? toml->integer(table, key, 1, kMaxRequestTimeout) : std::nullopt;
    return own ? own : toml->integer(section, key, 1, kMaxRequestTimeout);
  };
  out.domain = non_empty(text_of("connection", "domain"));
  const auto own_key = profile ? non_empty(toml->string(table, "api_key")) : std::nullopt;
  out.api_key = own_key ? own_key : toml->string("connection", "api_key");
  out.key_source =
      (own_key ? "profile '" + *profile + "'" : std::string("connection.api_key")) + " in " + path.string();
  out.key_domain = own_key ? out.domain : non_empty(toml->string("connection", "domain"));
  out.protocol = text_of("connection", "protocol");
  out.request_timeout = integer_of("connection", "request_timeout");
  out.use_server_proxy = bool_of("connection", "use_server_proxy");
  out.color = bool_of("output", "color");
  out.image = text_of("defaults", "image");
  // A bare number of seconds is a duration too.
  if (toml->has("defaults") || profile) out.timeout = text_of("defaults", "timeout");
  if (auto done = toml->finish(); !done) return failed(done.error(), hint);
  return out;
}

// The first key there is, unless it belongs to another server.
void choose_key(Config& out, const Flags& flags, const Environment& environment, const FileValues& file) {
  std::string source;
  std::optional<std::string> protocol = file.protocol;
  out.api_key = non_empty(flags.api_key);
  if (out.api_key) return;
  if (auto key = non_empty(environment("OPEN_SANDBOX_API_KEY"))) {
    out.api_key = std::move(key);
    source = "OPEN_SANDBOX_API_KEY";
    out.key_domain = non_empty(environment("OPEN_SANDBOX_DOMAIN"));
    protocol = first_text(environment("OPEN_SANDBOX_PROTOCOL"), file.protocol, {});
  } else if (auto saved = non_empty(file.api_key)) {
    out.api_key = std::move(saved);
    source = file.key_source;
    out.key_domain = file.key_domain;
  }
  if (!out.api_key || !out.key_domain) return;
  const opensandbox::ServerAddress owner{*out.key_domain, protocol.value_or("http")};
  if (opensandbox::key_may_go(owner, {out.domain.value_or(kDefaultDomain), out.protocol})) return;
  out.withheld = WithheldKey{source, *out.key_domain};
  out.api_key.reset();
  out.key_domain.reset();
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  };
}

std::filesystem::path config_path(const Flags& flags, const Environment& environment) {
  if (flags.config) return *flags.config;
  return std::filesystem::path(environment("HOME").value_or("/")) / ".opensandbox" / "config.toml";
}

Expected<Config> resolve_config(const Flags& flags, const Environment& environment, const std::filesystem::path& path) {
  Config out;
  auto file = read_file(path, first_text(flags.profile, environment("OPEN_SANDBOX_PROFILE"), {}));
  if (!file) return std::unexpected(file.error());
  out.profile = file->profile;
  out.domain = first_text(flags.domain, environment("OPEN_SANDBOX_DOMAIN"), file->domain);
  out.protocol = first_text(flags.protocol, environment("OPEN_SANDBOX_PROTOCOL"), file->protocol).value_or("http");
  if (out.protocol != "http" && out.protocol != "https") {
    return invalid("The protocol is '" + out.protocol + "'; it must be http or https.",
                   "Correct OPEN_SANDBOX_PROTOCOL, or " + path.string() + ": osb config set connection.protocol http");
  }
  choose_key(out, flags, environment, *file);
  out.request_timeout = first(flags.request_timeout, parse_integer(environment("OPEN_SANDBOX_REQUEST_TIMEOUT")),
                              file->request_timeout, out.request_timeout);
  out.use_server_proxy = first(flags.use_server_proxy, parse_switch(environment("OPEN_SANDBOX_USE_SERVER_PROXY")),
                               file->use_server_proxy, out.use_server_proxy);
  out.color = file->color.value_or(out.color);
  out.default_image = file->image;
  out.default_timeout = file->timeout;
  return out;
}

std::string withheld_hint(const Config& config) {
  if (!config.withheld) return {};
  return "The key of " + config.withheld->source + " belongs to " + config.withheld->domain +
         " and was not sent. Name this server's key with --api-key or OPEN_SANDBOX_API_KEY.";
}

std::string mask_key(const std::string& key) {
  if (key.size() <= 4) return std::string(key.size(), '*');
  return key.substr(0, 2) + std::string(key.size() - 4, '*') + key.substr(key.size() - 2);
}

}  // namespace osb::cli
