#include "config/server_config.h"

#include <cerrno>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>

#include "base/concat.h"
#include "base/parse_number.h"
#include "base/unique_fd.h"
#include "config/sections.h"
#include "config/settings.h"
#include "config/toml_reader.h"

namespace osb::config {
namespace {

constexpr std::string_view kKeyVariable = "OPENSANDBOX_SERVER_API_KEY";

constexpr std::size_t kMaxFile = 1 << 20;

Result<std::string> read_file(const std::filesystem::path& path) {
  const auto failed = [&](int e) {
    return Failure(Error(e == ENOENT ? Code::NotFound : Code::Internal,
                         path.string() + ": " + std::generic_category().message(e), e));
  };
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return failed(errno);
  std::string text;
  char buffer[16384];
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(errno);
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kMaxFile) return fail(Code::InvalidRequest, path.string() + ": larger than 1 MiB");
  }
}

Result<void> apply_environment(ServerConfig& config, const Environment& environment) {
  // Also when it is empty: a variable that is defined overrides the file.
  if (const std::string* key = environment.find(std::string(kKeyVariable))) config.server.api_key = *key;
  if (const std::string* ttl = environment.find("PENDING_FAILURE_TTL"); ttl != nullptr && !ttl->empty()) {
    const std::int64_t seconds = parse_number<std::int64_t>(*ttl).value_or(-1);
    if (seconds < 0) {
      return fail(Code::InvalidRequest, "PENDING_FAILURE_TTL: expected a number of seconds");
    }
    config.pending_failure_ttl = std::chrono::seconds(seconds);
  }
  const auto is_set = [&](const char* name) {
    const std::string* value = environment.find(name);
    return value != nullptr && !value->empty();
  };
  // These are about security: a server that ignored them would be open where its operator expects it closed.
  constexpr std::pair<const char*, const char*> kRefused[] = {{"OPENSANDBOX_SECURE_ACCESS_KEYS", "gateway"},
                                                              {"OPENSANDBOX_SECURE_ACCESS_ACTIVE_KEY", "gateway"},
                                                              {"SANDBOX_TENANTS_CONFIG_PATH", "tenants"}};
  for (const auto& [name, part] : kRefused) {
    if (is_set(name)) return fail(Code::InvalidRequest, concat(name, ": this server has no ", part, " yet; unset it"));
  }
  constexpr const char* kDsn = "OPENSANDBOX_STORE_POSTGRESQL_DSN";
  if (is_set(kDsn)) config.warnings.push_back(concat(kDsn, ": has no effect, this server does not know it yet"));
  return {};
}

}  // namespace

std::string_view to_string(RuntimeType type) {
  switch (type) {
    case RuntimeType::Native:
      return "native";
    case RuntimeType::Docker:
      return "docker";
    case RuntimeType::Kubernetes:
      return "kubernetes";
  }
  return "";
}

Environment Environment::of_this_process() {
  Environment out;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string_view::npos) out.variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

const std::string* Environment::find(const std::string& name) const {
  const auto found = variables.find(name);
  return found == variables.end() ? nullptr : &found->second;
}

std::filesystem::path Environment::home() const {
  const std::string* home = find("HOME");
  return home == nullptr || home->empty() ? "/" : *home;
}

std::filesystem::path expand_home(std::string_view path, const Environment& environment) {
  if (path == "~") return environment.home();
  if (path.starts_with("~/")) return environment.home() / path.substr(2);
  return path;
}

Result<ServerConfig> parse_server_config(std::string_view toml, const std::filesystem::path& source,
                                         const Environment& environment) {
  auto reader = TomlReader::parse(toml, source);
  if (!reader) return Failure(reader.error());
  ServerConfig config;
  config.source = source;
  Settings settings = Settings::reading(*reader, environment);
  declare_server_settings(settings, config);
  read_other_keys(*reader, config);
  check_sections(*reader, config);
  check_unknown_keys(*reader);
  if (auto done = reader->finish(); !done) return Failure(done.error());
  config.warnings = reader->warnings();
  if (auto done = apply_environment(config, environment); !done) return Failure(done.error());
  return config;
}

Result<ServerConfig> load_server_config(std::string_view flag, const Environment& environment) {
  const std::string* variable = environment.find("SANDBOX_CONFIG_PATH");
  const bool by_variable = flag.empty() && variable != nullptr && !variable->empty();
  const bool named = !flag.empty() || by_variable;
  const std::filesystem::path path = expand_home(!flag.empty() ? flag
                                                 : by_variable ? std::string_view(*variable)
                                                               : "~/.sandbox.toml",
                                                 environment);
  const auto text = read_file(path);
  if (text) return parse_server_config(*text, path, environment);
  if (named || text.error().code != Code::NotFound) return with_context("configuration", text.error());
  auto config = parse_server_config("", "", environment);
  // Without a file no other machine may reach the server.
  if (config) config->server.host = "127.0.0.1";
  return config;
}

std::string describe(const ServerConfig& config) {
  const auto secret = [](std::string_view value) { return value.empty() ? "none" : "***"; };
  std::string out = "source=" + (config.source.empty() ? "defaults" : config.source.string());
  out += " listen=" + config.server.host + ":" + std::to_string(config.server.port);
  out += std::string(" api_key=") + secret(config.server.api_key);
  out += " runtime=" + std::string(to_string(config.runtime.type));
  if (config.runtime.type == RuntimeType::Native) out += " sandboxd=" + config.native.socket.string();
  if (!config.runtime.execd_image.empty()) out += " execd_image=" + config.runtime.execd_image;
  out += " store=" + config.store.path.string();
  if (config.ingress.gateway) out += " gateway=" + config.ingress.address;
  if (!config.ingress.keys.empty()) out += " signing_keys=***";
  if (!config.secure_runtime.type.empty()) out += " secure_runtime=" + config.secure_runtime.type;
  if (config.renew_intent.enabled)
    out += std::string(" renew_intent=on redis=") + secret(config.renew_intent.redis.dsn);
  return out;
}

}  // namespace osb::config
