#include "cli/config/config.h"

#include <cstdlib>

#include "api/json.h"
#include "config/toml_reader.h"
#include "sys/text_file.h"

namespace osb::cli {
namespace {

constexpr std::int64_t kMaxRequestTimeout = 86400;

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
  if (!text) return std::nullopt;
  char* end = nullptr;
  const long long value = std::strtoll(text->c_str(), &end, 10);
  if (text->empty() || *end != '\0' || value <= 0 || value > kMaxRequestTimeout) return std::nullopt;
  return value;
}

std::optional<bool> parse_switch(const std::optional<std::string>& text) {
  return text ? api::parse_lax_bool(*text) : std::nullopt;
}

// What the file says, the profile's table before the general ones.
struct FileValues {
  std::optional<std::string> api_key, domain, protocol, image, timeout;
  std::optional<std::int64_t> request_timeout;
  std::optional<bool> use_server_proxy, color;
};

Expected<FileValues> read_file(const std::filesystem::path& path, const std::optional<std::string>& profile) {
  FileValues out;
  const auto no_profile = [&] {
    return invalid("There is no profile '" + *profile + "' in " + path.string() + ".",
                   "Add a table [profiles." + *profile + "] or leave out --profile and OPEN_SANDBOX_PROFILE.");
  };
  auto text = sys::read_text(path.string());
  if (!text && text.error().code == Code::NotFound) {
    if (profile) return no_profile();
    return out;
  }
  const std::string hint = "Correct it, or write a new one with 'osb config init --force'.";
  if (!text) return failed(text.error());
  auto toml = config::TomlReader::parse(*text, path);
  if (!toml) return failed(toml.error(), hint);
  const std::string table = profile ? "profiles." + *profile : "";
  if (profile && !toml->has(table)) return no_profile();
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
  out.api_key = text_of("connection", "api_key");
  out.domain = text_of("connection", "domain");
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
  out.profile = first_text(flags.profile, environment("OPEN_SANDBOX_PROFILE"), {});
  auto file = read_file(path, out.profile);
  if (!file) return std::unexpected(file.error());
  out.api_key = first_text(flags.api_key, environment("OPEN_SANDBOX_API_KEY"), file->api_key);
  out.domain = first_text(flags.domain, environment("OPEN_SANDBOX_DOMAIN"), file->domain);
  out.protocol = first_text(flags.protocol, environment("OPEN_SANDBOX_PROTOCOL"), file->protocol).value_or("http");
  if (out.protocol != "http" && out.protocol != "https") {
    return invalid("The protocol is '" + out.protocol + "'; it must be http or https.",
                   "Correct OPEN_SANDBOX_PROTOCOL or connection.protocol in " + path.string() + ".");
  }
  out.request_timeout = first(flags.request_timeout, parse_integer(environment("OPEN_SANDBOX_REQUEST_TIMEOUT")),
                              file->request_timeout, out.request_timeout);
  out.use_server_proxy = first(flags.use_server_proxy, parse_switch(environment("OPEN_SANDBOX_USE_SERVER_PROXY")),
                               file->use_server_proxy, out.use_server_proxy);
  out.color = file->color.value_or(out.color);
  out.default_image = file->image;
  out.default_timeout = file->timeout;
  return out;
}

std::string mask_key(const std::string& key) {
  if (key.size() <= 4) return std::string(key.size(), '*');
  return key.substr(0, 2) + std::string(key.size() - 4, '*') + key.substr(key.size() - 2);
}

}  // namespace osb::cli
