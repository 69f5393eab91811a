#include <opensandbox/async.h>

#include "client/errors.h"
#include "client/event_stream.h"
#include "client/json.h"
#include "client/sandbox_state.h"

namespace opensandbox::async {
namespace {

constexpr const char* kBase = "/v1/isolated";

std::string target_of(const std::string& id, std::string_view rest = "") {
  return std::string(kBase) + "/session/" + encode(id).append(rest);
}

std::string run_target(const std::string& id, const std::string& run, std::string_view rest = "") {
  return target_of(id, "/runs/" + encode(run).append(rest));
}

// --- requests

json::object mount_json(const IsolatedMount& mount) {
  json::object out{{"path", mount.path}};
  if (!mount.mode.empty()) out["mode"] = mount.mode;
  if (mount.persist) out["persist"] = *mount.persist;
  return out;
}

json::object create_body(const IsolatedSessionOptions& options) {
  json::object body;
  if (!options.profile.empty()) body["profile"] = options.profile;
  if (options.workspace) body["workspace"] = mount_json(*options.workspace);
  json::array overlays, binds;
  for (const IsolatedMount& each : options.overlays) overlays.push_back(mount_json(each));
  if (!overlays.empty()) body["overlays"] = std::move(overlays);
  if (!options.extra_writable.empty()) body["extra_writable"] = to_json(options.extra_writable);
  for (const IsolatedBind& each : options.binds) {
    json::object bind{{"source", each.source}, {"readonly", each.read_only}};
    if (!each.dest.empty()) bind["dest"] = each.dest;
    binds.push_back(std::move(bind));
  }
  if (!binds.empty()) body["binds"] = std::move(binds);
  if (!options.share_net) body["share_net"] = false;
  if (const auto& env = options.env_passthrough) {
    body["env_passthrough"] = json::object{{"mode", env->mode}, {"keys", to_json(env->keys)}};
  }
  if (options.uid) body["uid"] = *options.uid;
  if (options.gid) body["gid"] = *options.gid;
  if (!options.uid_mode.empty()) body["uid_mode"] = options.uid_mode;
  if (options.idle_timeout) body["idle_timeout_seconds"] = options.idle_timeout->count();
  return body;
}

// --- answers

IsolatedSession session_from(const json::object& object) {
  IsolatedSession out;
  out.id = text_of(object, "session_id");
  out.status = text_of(object, "status");
  if (out.status.empty()) out.status = "active";  // the answer of a create does not say it
  out.created_at = time_of(object, "created_at");
  out.last_run_at = time_of(object, "last_run_at");
  if (const auto left = int_of(object, "idle_remaining_seconds")) out.idle_remaining = std::chrono::seconds(*left);
  out.json = json::serialize(object);
  return out;
}

IsolatedRun run_from(const json::object& object) {
  IsolatedRun out;
  out.session_id = text_of(object, "session_id");
  out.id = text_of(object, "run_id");
  out.running = !object.contains("running") || bool_of(object, "running");  // a run that begins does not say it
  if (const auto code = int_of(object, "exit_code")) out.exit_code = static_cast<int>(*code);
  out.error = text_of(object, "error");
  out.started_at = time_of(object, "started_at");
  out.finished_at = time_of(object, "finished_at");
  return out;
}

IsolatedCommit commit_from(const json::object& object) {
  return {.written = static_cast<std::uint64_t>(int_of(object, "written").value_or(0)),
          .removed = static_cast<std::uint64_t>(int_of(object, "removed").value_or(0))};
}

IsolatedWall wall_of(const json::object* hardening, std::string_view name) {
  const json::object* wall = hardening == nullptr ? nullptr : object_of(*hardening, name);
  if (wall == nullptr) return {};
  return {.state = text_of(*wall, "state"), .message = text_of(*wall, "message")};
}

IsolationCapabilities capabilities_from(const json::object& object) {
  IsolationCapabilities out;
  out.available = bool_of(object, "available");
  out.isolator = text_of(object, "isolator");
  out.version = text_of(object, "version");
  out.message = text_of(object, "message");
  out.setpriv_available = bool_of(object, "setpriv_available");
  out.userns_available = bool_of(object, "userns_available");
  out.commit_supported = bool_of(object, "commit_supported");
  out.diff_supported = bool_of(object, "diff_supported");
  const json::object* hardening = object_of(object, "hardening");
  if (hardening != nullptr) {
    out.init_mode = text_of(*hardening, "init_mode");
    out.signal_shield = bool_of(*hardening, "signal_shield");
  }
  out.cap_drop = wall_of(hardening, "cap_drop");
  out.seccomp = wall_of(hardening, "seccomp");
  out.landlock = wall_of(hardening, "landlock");
  out.ebpf = wall_of(hardening, "ebpf");
  out.json = json::serialize(object);
  return out;
}

template <typename T>
Task<T> ask(SandboxPtr sandbox, Call call, T (*decode)(const json::object&)) {
  auto reply = co_await call_execd(std::move(sandbox), std::move(call));
  if (!reply) co_return Failure(std::move(reply.error()));
  const auto value = parse_answer(reply->body, reply->request_id);
  if (!value) co_return Failure(value.error());
  if (!value->is_object()) co_return invalid_response("the answer is no JSON object", reply->request_id);
  co_return decode(value->get_object());
}

std::vector<IsolatedSession> sessions_from(const json::object& object) {
  std::vector<IsolatedSession> out;
  const json::array* all = array_of(object, "sessions");
  if (all == nullptr) return out;
  for (const json::value& each : *all) {
    if (const auto* session = each.if_object()) out.push_back(session_from(*session));
  }
  return out;
}

}  // namespace

Task<IsolationCapabilities> IsolatedSessions::capabilities() const {
  return ask(sandbox_, {.target = std::string(kBase) + "/capabilities"}, capabilities_from);
}

Task<IsolatedSession> IsolatedSessions::create(IsolatedSessionOptions options) const {
  if (!options.workspace && options.overlays.empty()) {
    return failed_task<IsolatedSession>(invalid_argument("workspace: it or an overlay is needed"));
  }
  if (options.gid && !options.uid) return failed_task<IsolatedSession>(invalid_argument("gid: needs uid"));
  return ask(sandbox_, json_call("POST", std::string(kBase) + "/session", json::serialize(create_body(options))),
             session_from);
}

Task<IsolatedSession> IsolatedSessions::get(std::string id) const {
  if (id.empty()) return failed_task<IsolatedSession>(invalid_argument("session id: must not be empty"));
  return ask(sandbox_, {.target = target_of(id)}, session_from);
}

Task<std::vector<IsolatedSession>> IsolatedSessions::list() const {
  return ask(sandbox_, {.target = std::string(kBase) + "/sessions"}, sessions_from);
}

Task<void> IsolatedSessions::remove(std::string id) const {
  if (id.empty()) return failed_task<void>(invalid_argument("session id: must not be empty"));
  return tell_execd(sandbox_, {.method = "DELETE", .target = target_of(id)});
}

Task<Execution> IsolatedSessions::run(std::string id, std::string code, IsolatedRunOptions options,
                                      EventSink sink) const {
  if (id.empty()) return failed_task<Execution>(invalid_argument("session id: must not be empty"));
  if (options.timeout.count() < 0) return failed_task<Execution>(invalid_argument("timeout: must not be negative"));
  json::object body{{"code", code}};
  if (!options.envs.empty()) body["envs"] = to_json(options.envs);
  if (options.timeout.count() > 0) body["timeout_seconds"] = options.timeout.count();
  StreamOptions stream{.keep_output = !options.discard_output, .keep_json = options.keep_json};
  return run_stream(sandbox_, json_call("POST", target_of(id, "/run"), json::serialize(body)), std::move(stream),
                    std::move(sink));
}

Task<IsolatedRun> IsolatedSessions::run_background(std::string id, std::string code, StringMap envs) const {
  if (id.empty()) return failed_task<IsolatedRun>(invalid_argument("session id: must not be empty"));
  json::object body{{"code", code}, {"background", true}};
  if (!envs.empty()) body["envs"] = to_json(envs);
  return ask(sandbox_, json_call("POST", target_of(id, "/run"), json::serialize(body)), run_from);
}

Task<IsolatedRun> IsolatedSessions::run_status(std::string id, std::string run_id) const {
  return ask(sandbox_, {.target = run_target(id, run_id)}, run_from);
}

Task<CommandLogs> IsolatedSessions::run_logs(std::string id, std::string run_id,
                                             std::optional<std::int64_t> cursor) const {
  return read_logs(sandbox_, run_target(id, run_id, "/logs"), cursor, "ISOLATED");
}

Files IsolatedSessions::files(std::string id) const { return Files(sandbox_, target_of(id)); }

Task<std::uint64_t> IsolatedSessions::diff(std::string id, ByteSink sink) const {
  return pump_out(sandbox_, {.target = target_of(id, "/diff")}, std::move(sink), {});
}

Task<IsolatedCommit> IsolatedSessions::commit(std::string id) const {
  return ask(sandbox_, {.method = "POST", .target = target_of(id, "/commit"), .endless = true}, commit_from);
}

}  // namespace opensandbox::async
