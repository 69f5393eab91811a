#include "api/native.h"

#include <algorithm>
#include <array>
#include <utility>

#include "api/json.h"
#include "base/text.h"

namespace osb::api::native {
namespace {

template <typename E, std::size_t N>
using Names = std::array<std::pair<E, std::string_view>, N>;

constexpr Names<NetworkMode, 3> kNetworkModes{
    {{NetworkMode::Bridge, "bridge"}, {NetworkMode::None, "none"}, {NetworkMode::Host, "host"}}};
constexpr Names<PullPolicy, 3> kPullPolicies{
    {{PullPolicy::Missing, "missing"}, {PullPolicy::Always, "always"}, {PullPolicy::Never, "never"}}};
constexpr Names<VolumeKind, 3> kVolumeKinds{
    {{VolumeKind::Host, "host"}, {VolumeKind::Named, "named"}, {VolumeKind::Tmpfs, "tmpfs"}}};
constexpr Names<State, 6> kStates{{{State::Creating, "creating"},
                                   {State::Running, "running"},
                                   {State::Paused, "paused"},
                                   {State::Exited, "exited"},
                                   {State::Failed, "failed"},
                                   {State::Removing, "removing"}}};

template <typename E, std::size_t N>
std::string_view name_of(const Names<E, N>& names, E value) {
  for (const auto& [each, name] : names) {
    if (each == value) return name;
  }
  return "";
}

template <typename E, std::size_t N>
E read_enum(ObjectReader& r, std::string_view field, const Names<E, N>& names, E otherwise) {
  const auto text = r.optional_string(field);
  if (!text) return otherwise;
  std::string known;
  for (const auto& [value, name] : names) {
    if (*text == name) return value;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  r.reject(field, "'" + *text + "' is not one of " + known);
  return otherwise;
}

// For the kernel: no NUL byte may cut it short.
std::string plain(ObjectReader& r, std::string_view field) {
  std::string text = r.optional_string(field).value_or("");
  if (text.find('\0') != std::string::npos) r.reject(field, "must not contain a NUL byte");
  return text;
}

std::optional<std::uint64_t> amount(ObjectReader& r, std::string_view field) {
  const auto number = r.optional_int64(field, 0);
  return number ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
}

std::uint64_t count(ObjectReader& r, std::string_view field) { return amount(r, field).value_or(0); }

Timestamp moment(ObjectReader& r, std::string_view field) {
  const auto text = r.optional_string(field);
  if (!text) return {};
  const auto time = parse_timestamp(*text);
  if (!time) r.reject(field, time.error().message);
  return time.value_or(Timestamp{});
}

Volume read_volume(ObjectReader& r) {
  Volume out;
  out.kind = read_enum(r, "kind", kVolumeKinds, VolumeKind::Host);
  out.source = plain(r, "source");
  out.sub_path = plain(r, "sub_path");
  out.target = plain(r, "target");
  out.read_only = r.optional_bool("read_only").value_or(false);
  out.create = r.optional_bool("create").value_or(false);
  out.delete_with_sandbox = r.optional_bool("delete_with_sandbox").value_or(false);
  out.size_bytes = amount(r, "size_bytes");
  return out;
}

json::value write_volume(const Volume& volume) {
  json::object out{{"kind", name_of(kVolumeKinds, volume.kind)},
                   {"source", volume.source},
                   {"sub_path", volume.sub_path},
                   {"target", volume.target},
                   {"read_only", volume.read_only},
                   {"create", volume.create},
                   {"delete_with_sandbox", volume.delete_with_sandbox}};
  if (volume.size_bytes) out["size_bytes"] = *volume.size_bytes;
  return out;
}

constexpr std::array<std::pair<std::string_view, std::optional<std::uint64_t> Limits::*>, 12> kLimits{
    {{"memory_bytes", &Limits::memory_bytes},
     {"cpu_millis", &Limits::cpu_millis},
     {"pids", &Limits::pids},
     {"disk_bytes", &Limits::disk_bytes},
     {"shm_bytes", &Limits::shm_bytes},
     {"io_bytes_per_second", &Limits::io_bytes_per_second},
     {"io_read_bps", &Limits::io_read_bps},
     {"io_write_bps", &Limits::io_write_bps},
     {"io_read_iops", &Limits::io_read_iops},
     {"io_write_iops", &Limits::io_write_iops},
     {"network_receive_bps", &Limits::network_receive_bps},
     {"network_send_bps", &Limits::network_send_bps}}};

std::vector<PublishedPort> read_ports(ObjectReader& r) {
  std::vector<PublishedPort> out;
  r.array("ports", [&](ObjectReader& p) {
    PublishedPort port;
    port.port = static_cast<std::uint16_t>(p.required_int64("port", 1, 65535));
    port.host_port = static_cast<std::uint16_t>(p.optional_int64("host_port", 0, 65535).value_or(0));
    port.protocol = p.optional_string("protocol").value_or("tcp");
    if (port.protocol != "tcp" && port.protocol != "udp") p.reject("protocol", "expected tcp or udp");
    out.push_back(std::move(port));
  });
  return out;
}

json::array write_ports(const std::vector<PublishedPort>& ports) {
  json::array out;
  for (const PublishedPort& port : ports) {
    out.push_back(json::object{{"port", port.port}, {"host_port", port.host_port}, {"protocol", port.protocol}});
  }
  return out;
}

json::object write_map(const std::map<std::string, std::string>& map) {
  json::object out;
  for (const auto& [key, value] : map) out[key] = value;
  return out;
}

json::array write_list(const std::vector<std::string>& list) { return json::array(list.begin(), list.end()); }

std::map<std::string, std::string> read_map(ObjectReader& r, std::string_view field) {
  return r.string_map(field).value_or(std::map<std::string, std::string>{});
}

// "NAME=value" goes to the kernel as it is.
std::map<std::string, std::string> read_env(ObjectReader& r) {
  auto env = read_map(r, "env");
  for (const auto& [name, value] : env) {
    if (name.empty() || name.find('=') != std::string::npos || (name + value).find('\0') != std::string::npos) {
      r.reject("env", "'" + name + "' cannot be the name of a variable, or its value holds a NUL byte");
    }
  }
  return env;
}

std::vector<std::string> read_words(ObjectReader& r, std::string_view field) {
  auto words = r.string_list(field).value_or(std::vector<std::string>{});
  for (const std::string& word : words) {
    if (word.find('\0') != std::string::npos) r.reject(field, "must not contain a NUL byte");
  }
  return words;
}

// An older version kept the requested entrypoint as JSON in a label; records and the other end may still do so.
template <typename T>
void read_labels(ObjectReader& r, T& out) {
  out.labels = read_map(r, "labels");
  out.requested_entrypoint = read_words(r, "requested_entrypoint");
  const auto label = out.labels.extract("opensandbox.io/entrypoint");
  if (!label || !out.requested_entrypoint.empty()) return;
  const auto words = parse_json(label.mapped());
  if (!words || !words->is_array()) return;
  for (const json::value& word : words->get_array()) {
    if (word.is_string()) out.requested_entrypoint.emplace_back(word.get_string());
  }
}

template <typename T>
Result<T> finish(const ObjectReader& r, T value) {
  if (auto done = r.finish(); !done) return Failure(done.error());
  return value;
}

// `more`: other characters that may occur.
bool is_token(std::string_view text, std::string_view more = "") {
  return text.size() >= 16 && text.size() <= 128 &&
         std::ranges::all_of(text, [more](char c) { return is_letter_or_digit(c) || more.contains(c); });
}

void read_policy(ObjectReader& r, CreateSandbox& out) {
  out.network_policy = read_network_policy(r, "networkPolicy");
  out.egress_token = plain(r, "egressToken");
  out.audit_policy = r.optional_bool("auditPolicy").value_or(false);
  out.credential_proxy = r.optional_bool("credentialProxy").value_or(false);
  if (out.egress_token.empty()) return;
  if (!is_token(out.egress_token, "-_")) r.reject("egressToken", "expected 16 to 128 letters, digits, '-' and '_'");
  if (!out.network_policy) r.reject("egressToken", "needs a networkPolicy");
}

constexpr ReadOptions kReading{};

}  // namespace

std::string_view to_string(State state) { return name_of(kStates, state); }

bool is_valid_id(std::string_view id) {
  return !id.empty() && id.size() <= 64 && id.front() != '-' &&
         std::ranges::all_of(id, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
}

Result<CreateSandbox> decode_create_sandbox(const json::value& value) {
  ObjectReader r(value, kReading);
  CreateSandbox out;
  out.id = r.required_string("id");
  if (!is_valid_id(out.id)) r.reject("id", "expected 1 to 64 of a-z, 0-9 and '-', not beginning with '-'");
  out.image = plain(r, "image");
  out.snapshot = plain(r, "snapshot");
  if (out.image.empty() == out.snapshot.empty()) r.reject("image", "exactly one of image and snapshot is needed");
  if (!out.snapshot.empty() && !is_valid_id(out.snapshot)) r.reject("snapshot", "is not the id of a snapshot");
  out.pull = read_enum(r, "pull", kPullPolicies, PullPolicy::Missing);
  r.object("login", [&](ObjectReader& l) {
    out.login = RegistryLogin{l.required_string("username"), l.optional_string("password").value_or("")};
  });
  out.platform = plain(r, "platform");
  out.entrypoint = read_words(r, "entrypoint");
  out.env = read_env(r);
  out.user = plain(r, "user");
  out.cwd = plain(r, "cwd");
  out.hostname = plain(r, "hostname");
  if (out.hostname.size() > 64) r.reject("hostname", "is longer than 64 characters");
  r.object("limits", [&](ObjectReader& l) {
    for (const auto& [name, field] : kLimits) out.limits.*field = amount(l, name);
  });
  r.object("ulimits", [&](ObjectReader&) {});
  if (const json::value* ulimits = r.find("ulimits"); ulimits != nullptr && ulimits->is_object()) {
    ObjectReader u(*ulimits, kReading, "/ulimits");
    for (const auto& entry : ulimits->get_object()) {
      out.ulimits[std::string(entry.key())] = static_cast<std::uint64_t>(u.required_int64(entry.key(), 0));
    }
    if (auto done = u.finish(); !done) return Failure(done.error());
  }
  r.array("volumes", [&](ObjectReader& v) { out.volumes.push_back(read_volume(v)); });
  out.network = read_enum(r, "network", kNetworkModes, NetworkMode::Bridge);
  out.ports = read_ports(r);
  out.dns = read_words(r, "dns");
  out.no_new_privileges = r.optional_bool("no_new_privileges").value_or(true);
  out.nested_user_namespaces = r.optional_bool("nested_user_namespaces").value_or(false);
  out.isolated_sessions = r.optional_bool("isolated_sessions").value_or(false);
  out.read_only_root = r.optional_bool("read_only_root").value_or(false);
  out.runtime = plain(r, "runtime");
  out.gpus = plain(r, "gpus");
  out.execd_token = plain(r, "execd_token");
  if (!out.execd_token.empty() && !is_token(out.execd_token)) {
    r.reject("execd_token", "expected 16 to 128 letters and digits");
  }
  read_policy(r, out);
  read_labels(r, out);
  return finish(r, std::move(out));
}

json::value encode(const CreateSandbox& create, Secrets secrets) {
  json::object limits;
  for (const auto& [name, field] : kLimits) {
    if (const auto& limit = create.limits.*field) limits[name] = *limit;
  }
  json::object ulimits;
  for (const auto& [name, value] : create.ulimits) ulimits[name] = value;
  json::array volumes;
  for (const Volume& volume : create.volumes) volumes.push_back(write_volume(volume));
  json::object out{{"id", create.id},
                   {"image", create.image},
                   {"snapshot", create.snapshot},
                   {"pull", name_of(kPullPolicies, create.pull)},
                   {"platform", create.platform},
                   {"entrypoint", write_list(create.entrypoint)},
                   {"requested_entrypoint", write_list(create.requested_entrypoint)},
                   {"env", write_map(create.env)},
                   {"user", create.user},
                   {"cwd", create.cwd},
                   {"hostname", create.hostname},
                   {"limits", std::move(limits)},
                   {"ulimits", std::move(ulimits)},
                   {"volumes", std::move(volumes)},
                   {"network", name_of(kNetworkModes, create.network)},
                   {"ports", write_ports(create.ports)},
                   {"dns", write_list(create.dns)},
                   {"no_new_privileges", create.no_new_privileges},
                   {"nested_user_namespaces", create.nested_user_namespaces},
                   {"read_only_root", create.read_only_root},
                   {"runtime", create.runtime},
                   {"gpus", create.gpus},
                   {"labels", write_map(create.labels)}};
  if (create.isolated_sessions) out["isolated_sessions"] = true;
  if (secrets == Secrets::Include && create.login) {
    out["login"] = json::object{{"username", create.login->username}, {"password", create.login->password}};
  }
  if (secrets == Secrets::Include && !create.execd_token.empty()) out["execd_token"] = create.execd_token;
  if (create.network_policy) out["networkPolicy"] = to_json(*create.network_policy);
  if (create.audit_policy) out["auditPolicy"] = true;
  if (create.credential_proxy) out["credentialProxy"] = true;
  if (secrets == Secrets::Include && !create.egress_token.empty()) out["egressToken"] = create.egress_token;
  return out;
}

Result<SandboxStatus> decode_sandbox(const json::value& value) {
  ObjectReader r(value, kReading);
  SandboxStatus out;
  out.id = r.required_string("id");
  out.state = read_enum(r, "state", kStates, State::Creating);
  out.reason = plain(r, "reason");
  out.message = plain(r, "message");
  r.object("exit", [&](ObjectReader& e) {
    out.exit = Exit{static_cast<int>(e.optional_int64("code", -1, 255).value_or(0)),
                    static_cast<int>(e.optional_int64("signal", 0, 127).value_or(0)),
                    e.optional_bool("out_of_memory").value_or(false)};
  });
  out.image = plain(r, "image");
  out.snapshot = plain(r, "snapshot");
  out.created_at = moment(r, "created_at");
  if (r.find("started_at") != nullptr) out.started_at = moment(r, "started_at");
  if (r.find("ended_at") != nullptr) out.ended_at = moment(r, "ended_at");
  out.network = read_enum(r, "network", kNetworkModes, NetworkMode::Bridge);
  out.address = plain(r, "address");
  out.ports = read_ports(r);
  out.execd_socket = plain(r, "execd_socket");
  out.execd_token = plain(r, "execd_token");
  out.egress_token = plain(r, "egressToken");
  out.pid = r.optional_int64("pid", 0).value_or(0);
  read_labels(r, out);
  return finish(r, std::move(out));
}

json::value encode(const SandboxStatus& sandbox) {
  json::object out{{"id", sandbox.id},
                   {"state", name_of(kStates, sandbox.state)},
                   {"reason", sandbox.reason},
                   {"message", sandbox.message},
                   {"image", sandbox.image},
                   {"snapshot", sandbox.snapshot},
                   {"created_at", format_timestamp(sandbox.created_at)},
                   {"network", name_of(kNetworkModes, sandbox.network)},
                   {"address", sandbox.address},
                   {"ports", write_ports(sandbox.ports)},
                   {"execd_socket", sandbox.execd_socket},
                   {"execd_token", sandbox.execd_token},
                   {"pid", sandbox.pid},
                   {"requested_entrypoint", write_list(sandbox.requested_entrypoint)},
                   {"labels", write_map(sandbox.labels)}};
  if (sandbox.exit) {
    out["exit"] = json::object{
        {"code", sandbox.exit->code}, {"signal", sandbox.exit->signal}, {"out_of_memory", sandbox.exit->out_of_memory}};
  }
  if (!sandbox.egress_token.empty()) out["egressToken"] = sandbox.egress_token;
  if (sandbox.started_at) out["started_at"] = format_timestamp(*sandbox.started_at);
  if (sandbox.ended_at) out["ended_at"] = format_timestamp(*sandbox.ended_at);
  return out;
}

Result<Stats> decode_stats(const json::value& value) {
  ObjectReader r(value, kReading);
  Stats out;
  out.cpu_usec = count(r, "cpu_usec");
  out.memory_bytes = count(r, "memory_bytes");
  out.memory_peak_bytes = count(r, "memory_peak_bytes");
  out.memory_limit_bytes = amount(r, "memory_limit_bytes");
  out.pids = count(r, "pids");
  out.io_read_bytes = count(r, "io_read_bytes");
  out.io_write_bytes = count(r, "io_write_bytes");
  out.oom_kills = count(r, "oom_kills");
  out.disk_bytes = count(r, "disk_bytes");
  return finish(r, out);
}

json::value encode(const Stats& stats) {
  json::object out{{"cpu_usec", stats.cpu_usec},
                   {"memory_bytes", stats.memory_bytes},
                   {"memory_peak_bytes", stats.memory_peak_bytes},
                   {"pids", stats.pids},
                   {"io_read_bytes", stats.io_read_bytes},
                   {"io_write_bytes", stats.io_write_bytes},
                   {"oom_kills", stats.oom_kills},
                   {"disk_bytes", stats.disk_bytes}};
  if (stats.memory_limit_bytes) out["memory_limit_bytes"] = *stats.memory_limit_bytes;
  return out;
}

Result<Snapshot> decode_snapshot(const json::value& value) {
  ObjectReader r(value, kReading);
  Snapshot out;
  out.id = r.required_string("id");
  out.sandbox = plain(r, "sandbox");
  out.image = plain(r, "image");
  out.bytes = count(r, "bytes");
  out.created_at = moment(r, "created_at");
  return finish(r, std::move(out));
}

json::value encode(const Snapshot& snapshot) {
  return json::object{{"id", snapshot.id},
                      {"sandbox", snapshot.sandbox},
                      {"image", snapshot.image},
                      {"bytes", snapshot.bytes},
                      {"created_at", format_timestamp(snapshot.created_at)}};
}

Result<Image> decode_image(const json::value& value) {
  ObjectReader r(value, kReading);
  Image out;
  out.name = r.required_string("name");
  out.digest = plain(r, "digest");
  out.bytes = count(r, "bytes");
  out.created_at = moment(r, "created_at");
  out.in_use = r.optional_bool("in_use").value_or(false);
  return finish(r, std::move(out));
}

json::value encode(const Image& image) {
  return json::object{{"name", image.name},
                      {"digest", image.digest},
                      {"bytes", image.bytes},
                      {"created_at", format_timestamp(image.created_at)},
                      {"in_use", image.in_use}};
}

}  // namespace osb::api::native
