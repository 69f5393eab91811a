#include <algorithm>
#include <cctype>
#include <opensandbox/async.h>

#include "base/parse_number.h"
#include "client/errors.h"
#include "client/event_stream.h"
#include "client/json.h"
#include "client/sandbox_state.h"

namespace opensandbox::async {

Task<CommandLogs> read_logs(SandboxPtr sandbox, std::string target, std::optional<std::int64_t> cursor,
                            std::string kind) {
  if (cursor) add_query(target, "cursor", std::to_string(*cursor));
  Call call{.target = std::move(target)};
  call.headers.add("Accept", "text/plain");
  auto reply = co_await call_execd(std::move(sandbox), std::move(call));
  if (!reply) co_return Failure(std::move(reply.error()));
  const std::string prefix = "EXECD-" + kind;
  CommandLogs out;
  out.cursor =
      osb::parse_number<std::int64_t>(reply->headers.get(prefix + "-TAIL-CURSOR")).value_or(cursor.value_or(0));
  out.skipped_bytes = osb::parse_number<std::uint64_t>(reply->headers.get(prefix + "-SKIPPED-BYTES")).value_or(0);
  out.text = std::move(reply->body);
  co_return out;
}

namespace {

// --- commands

json::object command_body(const RunOptions& options) {
  json::object body;
  if (!options.cwd.empty()) body["cwd"] = options.cwd;
  if (options.background) body["background"] = true;
  if (options.timeout.count() > 0) body["timeout"] = options.timeout.count();
  if (options.uid) body["uid"] = *options.uid;
  if (options.gid) body["gid"] = *options.gid;
  if (!options.user.empty()) body["user"] = options.user;
  if (!options.envs.empty()) body["envs"] = to_json(options.envs);
  return body;
}

Task<Execution> start(SandboxPtr sandbox, json::object body, const RunOptions& options, EventSink sink) {
  if (options.gid && !options.uid) return failed_task<Execution>(invalid_argument("gid: needs uid"));
  if (options.timeout.count() < 0) return failed_task<Execution>(invalid_argument("timeout: must not be negative"));
  StreamOptions stream{.keep_output = !options.discard_output,
                       .keep_json = options.keep_json,
                       .background = options.background,
                       .reconnect_for = options.reconnect_for};
  return run_stream(std::move(sandbox), json_call("POST", "/command", json::serialize(body)), std::move(stream),
                    std::move(sink));
}

Task<CommandStatus> read_status(SandboxPtr sandbox, std::string id) {
  auto reply = co_await call_execd(std::move(sandbox), {.target = "/command/status/" + encode(id)});
  if (!reply) co_return Failure(std::move(reply.error()));
  const auto value = parse_answer(reply->body, reply->request_id);
  if (!value) co_return Failure(value.error());
  if (!value->is_object()) co_return invalid_response("the status is no JSON object", reply->request_id);
  const auto& object = value->get_object();
  CommandStatus out;
  out.id = text_of(object, "id");
  out.content = text_of(object, "content");
  out.running = bool_of(object, "running");
  if (const auto code = int_of(object, "exit_code")) out.exit_code = static_cast<int>(*code);
  out.error = text_of(object, "error");
  out.reason = text_of(object, "reason");
  out.reason_message = text_of(object, "reason_message");
  out.started_at = time_of(object, "started_at");
  out.finished_at = time_of(object, "finished_at");
  out.json = std::move(reply->body);
  co_return out;
}

Call delete_by_id(std::string target, const std::string& id) {
  add_query(target, "id", id);
  return {.method = "DELETE", .target = std::move(target)};
}

// --- sessions

Task<std::string> make_session(SandboxPtr sandbox, std::string cwd) {
  json::object body;
  if (!cwd.empty()) body["cwd"] = cwd;
  auto reply = co_await call_execd(std::move(sandbox), json_call("POST", "/session", json::serialize(body)));
  if (!reply) co_return Failure(std::move(reply.error()));
  const auto value = parse_answer(reply->body, reply->request_id);
  if (!value) co_return Failure(value.error());
  std::string id = value->is_object() ? text_of(value->get_object(), "session_id") : std::string();
  if (id.empty()) co_return invalid_response("the session has no id", reply->request_id);
  co_return id;
}

// --- code

CodeContext context_from(const json::object& object) {
  return {.id = text_of(object, "id"), .language = text_of(object, "language")};
}

Task<CodeContext> one_context(SandboxPtr sandbox, Call call) {
  auto reply = co_await call_execd(std::move(sandbox), std::move(call));
  if (!reply) co_return Failure(std::move(reply.error()));
  const auto value = parse_answer(reply->body, reply->request_id);
  if (!value) co_return Failure(value.error());
  if (!value->is_object()) co_return invalid_response("the context is no JSON object", reply->request_id);
  co_return context_from(value->get_object());
}

Task<std::vector<CodeContext>> all_contexts(SandboxPtr sandbox, Call call) {
  auto reply = co_await call_execd(std::move(sandbox), std::move(call));
  if (!reply) co_return Failure(std::move(reply.error()));
  const auto value = parse_answer(reply->body, reply->request_id);
  if (!value) co_return Failure(value.error());
  if (!value->is_array()) co_return invalid_response("the contexts are no JSON array", reply->request_id);
  std::vector<CodeContext> out;
  for (const auto& item : value->get_array()) {
    if (const auto* object = item.if_object()) out.push_back(context_from(*object));
  }
  co_return out;
}

void add_settings(json::object& body, const std::string& cwd, const StringMap& envs,
                  std::chrono::milliseconds timeout) {
  if (!cwd.empty()) body["cwd"] = cwd;
  if (timeout.count() > 0) body["timeout"] = timeout.count();
  if (envs.empty()) return;
  json::object variables;
  for (const auto& [name, value] : envs) variables[name] = value;
  body["envs"] = std::move(variables);
}

std::string with_language(std::string target, const std::string& language) {
  if (!language.empty()) add_query(target, "language", language);
  return target;
}

}  // namespace

Task<Execution> Commands::run(std::string command, RunOptions options, EventSink sink) const {
  if (command.empty()) return failed_task<Execution>(invalid_argument("command: must not be empty"));
  json::object body = command_body(options);
  body["command"] = command;
  return start(sandbox_, std::move(body), options, std::move(sink));
}

Task<Execution> Commands::run_program(std::vector<std::string> argv, RunOptions options, EventSink sink) const {
  if (argv.empty() || argv.front().empty()) {
    return failed_task<Execution>(invalid_argument("argv: has to name a program"));
  }
  json::object body = command_body(options);
  body["argv"] = to_json(argv);
  return start(sandbox_, std::move(body), options, std::move(sink));
}

namespace {

// An entry of the file that EXECD_ENVS names. Single quotes change nothing between them.
std::string env_line(const std::string& name, std::string_view value) {
  if (!value.contains('\'')) return name + "='" + std::string(value) + "'";
  std::string out = name + "=\"";
  for (const char c : value) {
    const std::size_t known = std::string_view("\\\"$\n\r\t").find(c);
    known == std::string_view::npos ? void(out += c) : void((out += '\\') += "\\\"$nrt"[known]);
  }
  return out + '"';
}

Task<void> append_env(Commands commands, std::string name, std::string line) {
  // The file's directory need not be there. The value may be a secret, so it is in no command line.
  constexpr const char* kAppend =
      R"([ -n "$EXECD_ENVS" ] && mkdir -p "${EXECD_ENVS%/*}/" && printf '%s\n' "$SDK_ENTRY" >>"$EXECD_ENVS")";
  RunOptions options;
  options.envs = {{"SDK_ENTRY", std::move(line)}};
  const auto done = co_await commands.run(kAppend, std::move(options), {});
  if (!done) co_return Failure(done.error());
  if (done->exit_code == 0) co_return Result<void>();
  Error error;
  error.kind = ErrorKind::Api;
  error.code = "SET_ENV_FAILED";
  error.message = "the sandbox has no file for variables of all commands, or cannot write it: " + name +
                  " was not set: " + done->stderr_text();
  co_return Failure(std::move(error));
}

}  // namespace

Task<void> Commands::set_env(std::string name, std::string value) const {
  const auto in_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0 || !std::ranges::all_of(name, in_name)) {
    return failed_task<void>(invalid_argument("name: a variable has letters, digits and _"));
  }
  if (value.contains('\0')) return failed_task<void>(invalid_argument("value: must not contain a NUL byte"));
  return append_env(*this, name, env_line(name, value));
}

Task<Execution> Commands::follow(std::string id, std::uint64_t after, RunOptions options, EventSink sink) const {
  if (id.empty()) return failed_task<Execution>(invalid_argument("command id: must not be empty"));
  StreamOptions stream{.keep_output = !options.discard_output,
                       .keep_json = options.keep_json,
                       .reconnect_for = options.reconnect_for,
                       .id = id,
                       .after = after};
  return run_stream(sandbox_, follow_call(id, after), std::move(stream), std::move(sink));
}

Task<void> Commands::interrupt(std::string id) const { return tell_execd(sandbox_, delete_by_id("/command", id)); }
Task<CommandStatus> Commands::status(std::string id) const { return read_status(sandbox_, std::move(id)); }
Task<CommandLogs> Commands::logs(std::string id, std::optional<std::int64_t> cursor) const {
  return read_logs(sandbox_, "/command/" + encode(id) + "/logs", cursor, "COMMANDS");
}

Task<std::string> Sessions::create(std::string cwd) const { return make_session(sandbox_, std::move(cwd)); }

Task<Execution> Sessions::run(std::string session_id, std::string command, SessionRunOptions options,
                              EventSink sink) const {
  if (session_id.empty()) return failed_task<Execution>(invalid_argument("session id: must not be empty"));
  json::object body{{"command", command}};
  if (!options.cwd.empty()) body["cwd"] = options.cwd;
  if (options.timeout.count() > 0) body["timeout"] = options.timeout.count();
  StreamOptions stream{.keep_output = !options.discard_output, .keep_json = options.keep_json};
  return run_stream(sandbox_, json_call("POST", "/session/" + encode(session_id) + "/run", json::serialize(body)),
                    std::move(stream), std::move(sink));
}

Task<void> Sessions::remove(std::string session_id) const {
  return tell_execd(sandbox_, {.method = "DELETE", .target = "/session/" + encode(session_id)});
}

Task<CodeContext> CodeInterpreter::create_context(std::string language, CodeContextOptions options) const {
  json::object body{{"language", language}};
  add_settings(body, options.cwd, options.envs, options.timeout);
  return one_context(sandbox_, json_call("POST", "/code/context", json::serialize(body)));
}
Task<CodeContext> CodeInterpreter::context(std::string id) const {
  return one_context(sandbox_, {.target = "/code/contexts/" + encode(id)});
}
Task<std::vector<CodeContext>> CodeInterpreter::contexts(std::string language) const {
  return all_contexts(sandbox_, {.target = with_language("/code/contexts", language)});
}
Task<void> CodeInterpreter::remove_context(std::string id) const {
  return tell_execd(sandbox_, {.method = "DELETE", .target = "/code/contexts/" + encode(id)});
}
Task<void> CodeInterpreter::remove_contexts(std::string language) const {
  return tell_execd(sandbox_, {.method = "DELETE", .target = with_language("/code/contexts", language)});
}

Task<Execution> CodeInterpreter::run(std::string code, RunCodeOptions options, EventSink sink) const {
  if (options.context && !options.language.empty()) {
    return failed_task<Execution>(invalid_argument("give a context or a language, not both"));
  }
  json::object context;
  if (options.context && !options.context->id.empty()) context["id"] = options.context->id;
  std::string language = options.context ? options.context->language : options.language;
  context["language"] = language.empty() ? std::string(language::kPython) : std::move(language);
  json::object body{{"code", code}, {"context", std::move(context)}};
  add_settings(body, options.cwd, options.envs, options.timeout);
  StreamOptions stream{.keep_output = !options.discard_output, .keep_json = options.keep_json, .is_code = true};
  return run_stream(sandbox_, json_call("POST", "/code", json::serialize(body)), std::move(stream), std::move(sink));
}

Task<void> CodeInterpreter::interrupt(std::string execution_id) const {
  return tell_execd(sandbox_, delete_by_id("/code", execution_id));
}

}  // namespace opensandbox::async
