#include "config/sections.h"

#include <algorithm>
#include <limits>

namespace osb::config {
namespace {

using std::chrono::seconds;
constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();
// A hundred years: deadlines in nanoseconds do not overflow.
constexpr std::int64_t kMaxSeconds = 36500LL * 86400;

// Each sets the field when the key is there.
void set(TomlReader& r, std::string_view section, std::string_view key, std::string& field) {
  if (auto text = r.string(section, key)) field = std::move(*text);
}
void set(TomlReader& r, std::string_view section, std::string_view key, bool& field) {
  if (const auto flag = r.boolean(section, key)) field = *flag;
}
void set(TomlReader& r, std::string_view section, std::string_view key, int& field, std::int64_t min) {
  if (const auto number = r.integer(section, key, min, kMaxInt)) field = static_cast<int>(*number);
}
void set(TomlReader& r, std::string_view section, std::string_view key, seconds& field) {
  if (const auto number = r.integer(section, key, 1, kMaxSeconds)) field = seconds(*number);
}

void set_choice(TomlReader& r, std::string_view section, std::string_view key, std::string& field,
                std::initializer_list<std::string_view> choices) {
  const auto text = r.string(section, key);
  if (!text) return;
  if (std::ranges::find(choices, *text) != choices.end()) {
    field = *text;
    return;
  }
  std::string known;
  for (const std::string_view choice : choices) known += (known.empty() ? "\"" : ", \"") + std::string(choice) + "\"";
  r.reject(section, key, "expected one of " + known);
}

void not_empty(TomlReader& r, std::string_view section, std::string_view key, std::string_view value) {
  if (value.empty()) r.reject(section, key, "must not be empty");
}

void read_server(TomlReader& r, ServerSection& out) {
  set(r, "server", "host", out.host);
  not_empty(r, "server", "host", out.host);
  if (const auto port = r.integer("server", "port", 1, 65535)) out.port = static_cast<std::uint16_t>(*port);
  set(r, "server", "api_key", out.api_key);
  set(r, "server", "eip", out.eip);
  if (auto list = r.strings("server", "headerless_clients")) out.headerless_clients = std::move(*list);
  for (const std::string& begin : out.headerless_clients) {
    // Every User-Agent begins with nothing.
    if (begin.empty()) r.reject("server", "headerless_clients", "expected beginnings of User-Agent, not empty strings");
  }
  if (const auto limit = r.integer("server", "max_sandbox_timeout_seconds", 60, kMaxSeconds)) {
    out.max_sandbox_timeout = seconds(*limit);
  }
  set(r, "server", "timeout_keep_alive", out.timeout_keep_alive);
  set(r, "server", "limit_concurrency", out.limit_concurrency, 0);
  set(r, "server", "backlog", out.backlog, 1);
  set(r, "server", "thread_pool_size", out.thread_pool_size, 1);
  std::string ignored;  // of the original server's language
  set_choice(r, "server", "loop", ignored, {"auto", "uvloop", "asyncio"});
  set_choice(r, "server", "http", ignored, {"auto", "httptools", "h11"});
}

void read_log(TomlReader& r, const Environment& environment, LogSection& out) {
  set(r, "log", "level", out.level);
  if (out.level.size() < 3) r.reject("log", "level", "expected a level such as INFO");
  std::ranges::transform(out.level, out.level.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c & ~32) : c; });
  set_choice(r, "log", "format", out.format, {"text", "json"});
  set(r, "log", "file_enabled", out.file_enabled);
  const auto path = [&](std::string_view key, std::string_view otherwise) {
    const std::string text = r.string("log", key).value_or("");
    return expand_home(text.empty() ? otherwise : std::string_view(text), environment);
  };
  out.file_path = path("file_path", "~/logs/opensandbox/server.log");
  out.access_file_path = path("access_file_path", "~/logs/opensandbox/access.log");
  out.audit_file_path = path("audit_file_path", "");
  if (const auto bytes = r.integer("log", "file_max_bytes", 1)) out.file_max_bytes = *bytes;
  set(r, "log", "file_backup_count", out.file_backup_count, 0);
}

void read_runtime(TomlReader& r, RuntimeSection& out) {
  std::string type = "native";
  set_choice(r, "runtime", "type", type, {"native", "docker", "kubernetes"});
  if (type == "docker") out.type = RuntimeType::Docker;
  if (type == "kubernetes") out.type = RuntimeType::Kubernetes;
  set(r, "runtime", "execd_image", out.execd_image);
  if (out.type != RuntimeType::Native && out.execd_image.empty()) {
    r.reject("runtime", "execd_image", "required with type = \"" + type + "\": the image that holds execd");
  }
}

void read_native(TomlReader& r, const Environment& environment, ServerConfig& out) {
  std::string socket = out.native.socket;
  set(r, "native", "socket", socket);
  out.native.socket = expand_home(socket, environment);
  if (!out.native.socket.is_absolute()) r.reject("native", "socket", "expected an absolute path");
  set(r, "native", "request_timeout", out.native.request_timeout);
  set(r, "admission", "max_sandboxes", out.admission.max_sandboxes, 0);
  set(r, "admission", "max_concurrent_creates", out.admission.max_concurrent_creates, 1);
  set(r, "admission", "max_queued_creates", out.admission.max_queued_creates, 0);
}

void read_docker(TomlReader& r, DockerSection& out) {
  set(r, "docker", "network_mode", out.network_mode);
  not_empty(r, "docker", "network_mode", out.network_mode);
  set(r, "docker", "api_timeout", out.api_timeout);
  set(r, "docker", "host_ip", out.host_ip);
  if (auto list = r.strings("docker", "drop_capabilities")) out.drop_capabilities = std::move(*list);
  set(r, "docker", "apparmor_profile", out.apparmor_profile);
  set(r, "docker", "no_new_privileges", out.no_new_privileges);
  set(r, "docker", "seccomp_profile", out.seccomp_profile);
  if (const auto pids = r.integer("docker", "pids_limit", -1)) {
    out.pids_limit = *pids > 0 ? std::optional(*pids) : std::nullopt;
  }
}

void read_storage(TomlReader& r, const Environment& environment, ServerConfig& out) {
  if (auto paths = r.strings("storage", "allowed_host_paths")) out.storage.allowed_host_paths = std::move(*paths);
  set(r, "storage", "volume_default_size", out.storage.volume_default_size);
  set(r, "storage", "ossfs_mount_root", out.storage.ossfs_mount_root);
  if (!out.storage.ossfs_mount_root.starts_with('/')) {
    r.reject("storage", "ossfs_mount_root", "expected an absolute path");
  }
  set_choice(r, "store", "type", out.store.type, {"sqlite"});
  std::string path = "~/.opensandbox/opensandbox.db";
  set(r, "store", "path", path);
  not_empty(r, "store", "path", path);
  out.store.path = expand_home(path, environment);
}

void read_egress(TomlReader& r, EgressSection& out) {
  set(r, "egress", "image", out.image);
  set_choice(r, "egress", "mode", out.mode, {"dns", "dns+nft"});
  set(r, "egress", "disable_ipv6", out.disable_ipv6);
}

void read_renew_intent(TomlReader& r, RenewIntentSection& out) {
  constexpr std::string_view kRedis = "renew_intent.redis";
  set(r, "renew_intent", "enabled", out.enabled);
  set(r, "renew_intent", "min_interval_seconds", out.min_interval);
  set(r, kRedis, "enabled", out.redis.enabled);
  set(r, kRedis, "dsn", out.redis.dsn);
  if (out.redis.enabled && out.redis.dsn.find_first_not_of(" \t") == std::string::npos) {
    r.reject(kRedis, "dsn", "required with enabled = true");
  }
  set(r, kRedis, "queue_key", out.redis.queue_key);
  not_empty(r, kRedis, "queue_key", out.redis.queue_key);
  set(r, kRedis, "consumer_concurrency", out.redis.consumer_concurrency, 1);
}

}  // namespace

void read_host_sections(TomlReader& r, const Environment& environment, ServerConfig& config) {
  read_server(r, config.server);
  read_log(r, environment, config.log);
  read_runtime(r, config.runtime);
  read_native(r, environment, config);
  read_docker(r, config.docker);
  read_egress(r, config.egress);
  read_storage(r, environment, config);
  read_renew_intent(r, config.renew_intent);
}

void read_sections(TomlReader& r, const Environment& environment, ServerConfig& config) {
  read_host_sections(r, environment, config);
  read_cluster_sections(r, config);
  check_sections(r, config);
}

}  // namespace osb::config
