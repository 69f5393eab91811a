#include "mcp/client_session.h"

#include <algorithm>
#include <utility>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/json/serialize.hpp>

#include "base/log.h"
#include "base/stopwatch.h"
#include "mcp/schema.h"

namespace osb::mcp {
namespace {

constexpr std::string_view kLevels[] = {"debug", "info",     "notice", "warning",
                                        "error", "critical", "alert",  "emergency"};
constexpr std::size_t kDefaultLevel = 3;

constexpr std::string_view kInstructions =
    "These tools create isolated Linux sandboxes and work in them. sandbox_create returns a sandbox_id, which the "
    "other "
    "tools take. For a sandbox that was not made here call sandbox_connect first, or pass connect_if_missing=true. Run "
    "programs with command_run, long ones with background=true and command_output, several steps in one shell with "
    "session_create and session_run. Read and write files with file_read and file_write. Long results are cut; they "
    "say how to read the rest (next_cursor, next_range). sandbox_get_endpoint tells where a port is reached. End "
    "sandboxes with sandbox_kill.";

RpcFailure failure(int code, std::string message) { return RpcFailure(RpcError{code, std::move(message), nullptr}); }

json::value progress_token(const json::object& params) {
  const json::value* meta = params.if_contains("_meta");
  if (meta == nullptr || !meta->is_object()) return nullptr;
  const json::value* token = meta->get_object().if_contains("progressToken");
  return token != nullptr && (token->is_string() || token->is_number()) ? *token : json::value(nullptr);
}

net::awaitable<void> remove(sdk::Sandbox sandbox) {
  auto killed = co_await sandbox.kill();
  if (killed || killed.error().not_found()) {
    log_debug("sandbox removed with its client", {{"id", sandbox.id()}});
  } else {
    log_warn("a sandbox could not be removed with its client; it stays until its deadline",
             {{"id", sandbox.id()}, {"error", killed.error().to_string()}});
  }
}

}  // namespace

bool is_supported_version(std::string_view version) {
  return std::ranges::find(kProtocolVersions, version) != std::end(kProtocolVersions);
}

struct ClientSession::Running {
  json::value id;
  std::shared_ptr<Call> call;
  const Tool* tool = nullptr;  // nullptr: resources/read
  net::cancellation_signal stop;
};

ClientSession::ClientSession(net::any_io_executor loop, sdk::Client client, const std::vector<Tool>& tools,
                             SessionOptions options, std::shared_ptr<Outlet> general)
    : loop_(loop),
      tools_(tools),
      options_(options),
      general_(std::move(general)),
      sandboxes_(std::move(client)),
      level_(kDefaultLevel),
      ended_(loop),
      tasks_(loop) {}

ClientSession::~ClientSession() = default;

void ClientSession::receive(Payload payload, const std::shared_ptr<Outlet>& outlet) {
  // Batches came with 2025-03-26 and went with 2025-06-18; an initialize never is in one.
  if (payload.batch && version_ != "2025-03-26" && version_ != "2024-11-05") {
    outlet->answer(
        encode_error(nullptr, {rpc::kInvalidRequest, "batches are not part of this protocol version", nullptr}));
    for (std::size_t rest = answers_wanted(payload); rest > 1; --rest) outlet->drop();
    return;
  }
  for (Decoded& each : payload.messages) {
    if (Malformed* malformed = std::get_if<Malformed>(&each)) {
      outlet->answer(encode_error(malformed->id, malformed->error));
    } else {
      handle(std::move(std::get<Message>(each)), outlet);
    }
  }
}

void ClientSession::handle(Message message, const std::shared_ptr<Outlet>& outlet) {
  if (message.kind == Message::Kind::Request) {
    handle_request(message, outlet);
  } else if (message.kind == Message::Kind::Notification) {
    handle_notification(message);
  }
}

void ClientSession::handle_request(Message& message, const std::shared_ptr<Outlet>& outlet) {
  const std::string& method = message.method;
  const bool known = method == "initialize" || method == "ping" || method == "tools/list" || method == "tools/call" ||
                     method == "resources/list" || method == "resources/templates/list" || method == "resources/read" ||
                     method == "logging/setLevel";
  RpcResult result;
  if (!known) {
    result = failure(rpc::kMethodNotFound, "Method not found: " + method);
  } else if (method == "ping") {
    result = json::object();
  } else if (method == "initialize") {
    result = initialize(message.params);
  } else if (!initialized() || closing_) {
    result = failure(rpc::kInvalidRequest, "the session begins with initialize");
  } else if (method == "tools/call") {
    return call_tool(message, outlet);
  } else if (method == "resources/read") {
    const json::value* uri = message.params.if_contains("uri");
    if (uri != nullptr && uri->is_string()) return start(message, {{"uri", *uri}}, nullptr, outlet);
    result = failure(rpc::kInvalidParams, "uri: expected a string");
  } else if (method == "tools/list") {
    json::array all;
    for (const Tool& tool : tools_) all.push_back(describe(tool, options_.reply.published));
    result = page_of("tools", all, message.params);
  } else if (method == "resources/list") {
    result = page_of("resources", list_resources(sandboxes_), message.params);
  } else if (method == "resources/templates/list") {
    result = page_of("resourceTemplates", list_resource_templates(), message.params);
  } else {
    result = set_level(message.params);
  }
  outlet->answer(result ? encode_result(message.id, std::move(*result)) : encode_error(message.id, result.error()));
}

void ClientSession::handle_notification(const Message& message) {
  if (message.method != "notifications/cancelled") return;  // the others tell us nothing that we use
  const json::value* id = message.params.if_contains("requestId");
  if (id == nullptr) return;
  // A request that has just been answered is unknown: that is fine.
  const auto found = running_.find(json::serialize(*id));
  if (found == running_.end()) return;
  const std::shared_ptr<Running> running = found->second;
  cancel(*running);
}

void ClientSession::cancel(Running& running) {
  running.call->cancel();
  if (running.tool == nullptr || !running.tool->ends_itself) running.stop.emit(net::cancellation_type::terminal);
}

RpcResult ClientSession::initialize(const json::object& params) {
  if (initialized()) return failure(rpc::kInvalidRequest, "the session is initialized already");
  const json::value* wanted = params.if_contains("protocolVersion");
  if (wanted == nullptr || !wanted->is_string()) {
    return failure(rpc::kInvalidParams, "protocolVersion: expected a string");
  }
  const std::string_view version = wanted->get_string();
  // A version that we do not know is answered with our latest: the client decides whether it can live with that.
  version_ = is_supported_version(version) ? version : kLatestVersion;
  return json::object{
      {"protocolVersion", version_},
      {"capabilities", json::object{{"tools", json::object{{"listChanged", false}}},
                                    {"resources", json::object{{"subscribe", false}, {"listChanged", true}}},
                                    {"logging", json::object()}}},
      {"serverInfo", json::object{{"name", "OpenSandbox Sandbox"}, {"title", "OpenSandbox"}, {"version", OSB_VERSION}}},
      {"instructions", kInstructions}};
}

RpcResult ClientSession::set_level(const json::object& params) {
  const json::value* level = params.if_contains("level");
  const auto* found = std::end(kLevels);
  if (level != nullptr && level->is_string()) found = std::ranges::find(kLevels, std::string_view(level->get_string()));
  if (found == std::end(kLevels)) return failure(rpc::kInvalidParams, "level: expected one of RFC 5424's names");
  level_ = static_cast<std::size_t>(found - std::begin(kLevels));
  return json::object();
}

void ClientSession::log(std::string_view level, json::object data) {
  const auto* found = std::ranges::find(kLevels, level);
  if (static_cast<std::size_t>(found - std::begin(kLevels)) < level_ || !initialized()) return;
  general_->send(encode_notification("notifications/message",
                                     {{"level", level}, {"logger", "opensandbox"}, {"data", std::move(data)}}));
}

void ClientSession::call_tool(Message& message, const std::shared_ptr<Outlet>& outlet) {
  const auto refuse = [&](std::string why) {
    outlet->answer(encode_error(message.id, {rpc::kInvalidParams, std::move(why), nullptr}));
  };
  const json::value* name = message.params.if_contains("name");
  if (name == nullptr || !name->is_string()) return refuse("name: expected a string");
  const auto tool = std::ranges::find(tools_, std::string_view(name->get_string()), &Tool::name);
  if (tool == tools_.end()) {
    return refuse("Unknown tool: " + std::string(name->get_string()) +
                  ". Some tools are offered only when opensandbox-mcp runs with --all-tools");
  }
  json::value arguments = json::object();
  if (json::value* given = message.params.if_contains("arguments"); given != nullptr && !given->is_null()) {
    if (!given->is_object()) return refuse("arguments: expected an object");
    arguments = std::move(*given);
  }
  auto checked = conform(tool->input, std::move(arguments));
  if (!checked) {
    // A result and no protocol error: the model sees it and can do better.
    const ToolResult wrong = tool_failure("INVALID_ARGUMENT", checked.error().message);
    return outlet->answer(encode_result(message.id, encode_tool_result(*tool, wrong, reply_style(message.id))));
  }
  start(message, std::move(checked->as_object()), &*tool, outlet);
}

void ClientSession::start(const Message& message, json::object arguments, const Tool* tool,
                          const std::shared_ptr<Outlet>& outlet) {
  const auto refuse = [&](int code, std::string why) {
    outlet->answer(encode_error(message.id, {code, std::move(why), nullptr}));
  };
  if (running_.size() >= options_.max_calls)
    return refuse(rpc::kBusy, "too many calls at the same time; try again later");
  const Call::Environment environment{loop_,
                                      sandboxes_,
                                      [this](net::awaitable<void> task) { spawn_errand(std::move(task)); },
                                      options_.own_only,
                                      options_.reply.published,
                                      reply_style(message.id).max_bytes};
  auto running = std::make_shared<Running>();
  running->id = message.id;
  running->tool = tool;
  running->call = std::make_shared<Call>(environment, std::move(arguments), progress_token(message.params), outlet);
  if (!running_.try_emplace(json::serialize(message.id), running).second) {
    return refuse(rpc::kInvalidRequest, "a request with this id is still running");
  }
  // The handler holds `running` because the coroutine uses its slot until it is gone itself.
  net::co_spawn(
      loop_, run(running),
      net::bind_cancellation_slot(running->stop.slot(), [self = shared_from_this(), running](std::exception_ptr) {}));
}

// Ends with an answer, also after an error, except when it was cancelled: then the client does not wait for one.
net::awaitable<void> ClientSession::run(std::shared_ptr<Running> running) {
  const Stopwatch time;
  RpcResult result;
  try {
    result = co_await work(*running);
  } catch (const std::exception& bug) {
    if (!running->call->cancelled()) log_error("a call failed", {{"error", bug.what()}});
    result = failure(rpc::kInternalError, "internal error");
  }
  running->call->close();
  if (const std::uint64_t now = sandboxes_.version(); now != told_version_ && !closing_) {
    told_version_ = now;
    general_->send(encode_notification("notifications/resources/list_changed", {}));
  }
  Outlet& outlet = running->call->outlet();
  if (running->call->cancelled()) {
    outlet.drop();
  } else {
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(time.elapsed());
    if (running->tool != nullptr) {
      log("debug", {{"event", "tool called"},
                    {"tool", running->tool->name},
                    {"milliseconds", took.count()},
                    {"is_error", !result || result->at("isError").as_bool()}});
    }
    outlet.answer(result ? encode_result(running->id, std::move(*result)) : encode_error(running->id, result.error()));
  }
  running_.erase(json::serialize(running->id));
  ended_.notify_all();
}

net::awaitable<RpcResult> ClientSession::work(Running& running) {
  if (running.tool == nullptr) co_return co_await read_resource(*running.call);
  const ToolResult result = co_await running.tool->run(*running.call);
  json::object reply = encode_tool_result(*running.tool, result, reply_style(running.id));
  for (const json::value& picture : running.call->pictures()) reply["content"].as_array().push_back(picture);
  co_return reply;
}

ReplyStyle ClientSession::reply_style(const json::value& id) const {
  ReplyStyle style = options_.reply;
  if (style.published) style.max_bytes = ReplyStyle::kPublishedBytes;
  style.max_bytes -= std::min(style.max_bytes, encode_result(id, {}).size());
  return style;
}

void ClientSession::spawn_errand(net::awaitable<void> task) {
  ++errands_;
  tasks_.spawn("errand", run_errand(std::move(task)));
}

net::awaitable<void> ClientSession::run_errand(net::awaitable<void> task) {
  try {
    co_await std::move(task);
  } catch (const std::exception& bug) {
    log_error("an errand failed", {{"error", bug.what()}});
  }
  --errands_;
  ended_.notify_all();
}

net::awaitable<void> ClientSession::remove_created() {
  if (options_.keep_sandboxes) co_return;
  for (sdk::Sandbox& sandbox : sandboxes_.take_created()) spawn_errand(remove(std::move(sandbox)));
  co_await ended_.wait_until([this] { return errands_ == 0; });
}

net::awaitable<void> ClientSession::close() {
  closing_ = true;
  for (const auto& [id, running] : std::map(running_)) {
    cancel(*running);
  }
  // First: it ends what runs in them as well. A create that is on its way is waited for and removes what it made.
  co_await remove_created();
  co_await ended_.wait_until([this] { return running_.empty(); });
  co_await remove_created();
  // Interrupts of commands in sandboxes that stay have to go out.
  co_await ended_.wait_until([this] { return errands_ == 0; });
  co_await tasks_.close();
}

}  // namespace osb::mcp
