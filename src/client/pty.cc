#include <opensandbox/async.h>
#include <optional>
#include <utility>

#include "client/errors.h"
#include "client/json.h"
#include "client/sandbox_state.h"
#include "http/websocket.h"

namespace opensandbox::async {

struct PtyConnection::State {
  std::unique_ptr<osb::http::WebSocket> socket;
  std::uint64_t offset = 0;
  std::optional<osb::http::WebSocket::Message> first;  // came with attach()
};

namespace {

constexpr std::size_t kLargestFrame = 16 * 1024 * 1024;
constexpr std::chrono::milliseconds kPing{30'000};
constexpr std::chrono::milliseconds kSilence{75'000};
// The codes with which the server's proxy closes a WebSocket: execd has refused it, or the proxy did not reach execd.
constexpr std::uint16_t kRefusedByPort = 1008, kRefusedByServer = 1011;

std::optional<PtyFrame> binary_frame(std::string data, std::uint64_t& offset) {
  if (data.empty()) return std::nullopt;
  PtyFrame frame;
  std::size_t head = 1;
  switch (data[0]) {
    case 1:
      frame.type = PtyFrame::Type::Stdout;
      break;
    case 2:
      frame.type = PtyFrame::Type::Stderr;
      break;
    case 3:
      if (data.size() < 9) return std::nullopt;
      frame.type = PtyFrame::Type::Replay;
      for (std::size_t i = 1; i < 9; ++i) frame.offset = frame.offset << 8 | static_cast<unsigned char>(data[i]);
      head = 9;
      offset = frame.offset;
      break;
    default:
      return std::nullopt;
  }
  data.erase(0, head);
  if (frame.type != PtyFrame::Type::Replay) frame.offset = offset;
  offset += data.size();
  frame.data = std::move(data);
  return frame;
}

std::optional<std::uint64_t> offset_of(const json::object& object, std::string_view key) {
  const auto value = int_of(object, key);
  if (!value || *value < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*value);
}

std::optional<PtyFrame> text_frame(const std::string& text) {
  const auto value = parse_answer(text, "");
  if (!value || !value->is_object()) return std::nullopt;
  const auto& object = value->get_object();
  const std::string type = text_of(object, "type");
  PtyFrame frame;
  if (type == "connected") {
    frame.type = PtyFrame::Type::Connected;
    frame.session_id = text_of(object, "session_id");
    frame.mode = text_of(object, "mode");
    frame.input_offset = offset_of(object, "input_offset");
  } else if (type == "input") {
    frame.type = PtyFrame::Type::Input;
    frame.input_offset = offset_of(object, "offset");
    frame.input_closed = bool_of(object, "closed");
  } else if (type == "exit") {
    frame.type = PtyFrame::Type::Exit;
    frame.exit_code = static_cast<int>(int_of(object, "exit_code").value_or(-1));
    frame.signal = static_cast<int>(int_of(object, "signal").value_or(0));
    frame.reason = text_of(object, "reason");
    frame.reason_message = text_of(object, "reason_message");
  } else if (type == "error") {
    frame.type = PtyFrame::Type::Error;
    frame.data = text_of(object, "error");
    frame.code = text_of(object, "code");
  } else if (type == "pong") {
    frame.type = PtyFrame::Type::Pong;
  } else {
    return std::nullopt;
  }
  return frame;
}

Failure ended(const PtyConnection::State& state, const osb::Error& error) {
  // A close frame has a code; 1006 means that there was none.
  const auto code = state.socket->close_code();
  if (error.code != osb::Code::Cancelled || code == 1006 || code == 0) return network_error(error.message);
  Error out{.kind = ErrorKind::Cancelled, .code = "CLOSED"};
  const std::string reason(state.socket->close_reason());
  if (reason == "TAKEN_OVER" || reason == "SESSION_GONE") out.code = reason;
  out.message = "the terminal's connection was closed" + (reason.empty() ? std::string() : ": " + reason);
  return Failure(std::move(out));
}

Task<PtyFrame> next_frame(std::shared_ptr<PtyConnection::State> state) {
  for (;;) {
    osb::Result<osb::http::WebSocket::Message> message;
    if (auto first = std::exchange(state->first, std::nullopt)) {
      message = std::move(*first);
    } else {
      message = co_await state->socket->read();
    }
    if (!message) co_return ended(*state, message.error());
    auto frame = message->text ? text_frame(message->data) : binary_frame(std::move(message->data), state->offset);
    if (frame) co_return std::move(*frame);
  }
}

Task<void> send_input(std::shared_ptr<PtyConnection::State> state, std::string bytes) {
  bytes.insert(bytes.begin(), '\0');
  if (auto sent = co_await state->socket->send_binary(bytes); !sent) co_return from_transport(sent.error());
  co_return Result<void>();
}

Task<void> send_text(std::shared_ptr<PtyConnection::State> state, json::object object) {
  const std::string text = json::serialize(object);
  if (auto sent = co_await state->socket->send_text(text); !sent) co_return from_transport(sent.error());
  co_return Result<void>();
}

net::awaitable<void> close_it(std::shared_ptr<PtyConnection::State> state) {
  co_await state->socket->close(1000, "detached");
}

bool was_answered(osb::Code code) {
  return code == osb::Code::InvalidRequest || code == osb::Code::Unauthorized || code == osb::Code::Forbidden ||
         code == osb::Code::NotFound || code == osb::Code::Conflict;
}

Task<PtyConnection> connect(SandboxPtr sandbox, std::string target, std::uint64_t since) {
  auto peer = co_await sandbox->execd();
  if (!peer) co_return Failure(std::move(peer.error()));
  const ClientState wire = sandbox->wire();
  auto transport = co_await wire->connector->connect(peer->origin, wire->config.request_timeout);
  if (!transport) {
    sandbox->forget();
    co_return co_await explained(std::move(sandbox), from_transport(transport.error()).error());
  }
  osb::http::Headers headers = wire->headers_for(*peer, {});
  headers.remove("Host");
  auto socket = co_await osb::http::websocket_connect(
      std::move(*transport), peer->host, peer->prefix + target, std::move(headers),
      {.max_message_bytes = kLargestFrame, .ping_interval = kPing, .read_timeout = kSilence});
  auto state = std::make_shared<PtyConnection::State>();
  state->offset = since;
  osb::Error refusal;
  if (socket) {
    state->socket = std::move(*socket);
    // execd speaks first. The server's proxy says by a close that it was refused.
    auto first = co_await state->socket->read();
    if (first) {
      state->first = std::move(*first);
      co_return PtyConnection(std::move(state));
    }
    const auto code = state->socket->close_code();
    if (code != kRefusedByPort && code != kRefusedByServer) co_return ended(*state, first.error());
    refusal = osb::Error(code == kRefusedByPort ? osb::Code::Forbidden : osb::Code::Unavailable,
                         std::string(state->socket->close_reason()));
  } else {
    refusal = socket.error();
  }
  // The same question without the upgrade gets the reason as any other call does.
  if (socket || was_answered(refusal.code)) {
    auto reply = co_await wire->call(std::move(*peer), {.target = std::move(target)});
    if (!reply && reply.error().kind == ErrorKind::Api && reply.error().status != 400 && reply.error().status != 426) {
      co_return Failure(std::move(reply.error()));
    }
  }
  co_return co_await explained(std::move(sandbox), from_transport(refusal).error());
}

// Whether the answer to POST /pty says that a field was understood.
bool accepts(const json::object& answer, std::string_view field) {
  const auto* list = answer.if_contains("accepts");
  if (list == nullptr || !list->is_array()) return false;
  for (const auto& each : list->get_array()) {
    if (each.is_string() && each.get_string() == field) return true;
  }
  return false;
}

Task<std::string> make_pty(SandboxPtr sandbox, PtyCreateOptions options) {
  json::object body;
  if (!options.cwd.empty()) body["cwd"] = options.cwd;
  if (!options.command.empty()) body["command"] = options.command;
  if (!options.envs.empty()) {
    json::object envs;
    for (const auto& [name, text] : options.envs) envs[name] = text;
    body["envs"] = std::move(envs);
  }
  if (options.uid) body["uid"] = *options.uid;
  if (options.gid) body["gid"] = *options.gid;
  if (!options.user.empty()) body["user"] = options.user;
  const bool as_user = options.uid || !options.user.empty();
  auto reply = co_await call_execd(sandbox, json_call("POST", "/pty", json::serialize(body)));
  if (!reply) co_return Failure(std::move(reply.error()));
  const auto value = parse_answer(reply->body, reply->request_id);
  if (!value) co_return Failure(value.error());
  std::string id = value->is_object() ? text_of(value->get_object(), "session_id") : std::string();
  if (id.empty()) co_return invalid_response("the terminal has no id", reply->request_id);
  // Older execds ignore what they do not know; a program must not run as root because of that.
  const json::object& answer = value->get_object();
  if ((as_user && !accepts(answer, "user")) || (!options.envs.empty() && !accepts(answer, "envs"))) {
    (void)co_await tell_execd(std::move(sandbox), {.method = "DELETE", .target = "/pty/" + encode(id)});
    co_return Failure(Error{.kind = ErrorKind::Api,
                            .code = "UNSUPPORTED",
                            .message = "this sandbox's execd starts terminals with its own user and environment only"});
  }
  co_return id;
}

Task<PtyStatus> pty_status(SandboxPtr sandbox, std::string id) {
  auto reply = co_await call_execd(std::move(sandbox), {.target = "/pty/" + encode(id)});
  if (!reply) co_return Failure(std::move(reply.error()));
  const auto value = parse_answer(reply->body, reply->request_id);
  if (!value) co_return Failure(value.error());
  if (!value->is_object()) co_return invalid_response("the status is no JSON object", reply->request_id);
  const auto& object = value->get_object();
  PtyStatus out;
  out.session_id = text_of(object, "session_id");
  out.running = bool_of(object, "running");
  out.output_offset = static_cast<std::uint64_t>(int_of(object, "output_offset").value_or(0));
  co_return out;
}

}  // namespace

Task<PtyFrame> PtyConnection::read() const { return next_frame(state_); }
Task<void> PtyConnection::write(std::string input) const {
  if (input.empty()) return failed_task<void>(invalid_argument("input: must not be empty"));
  return send_input(state_, std::move(input));
}
Task<void> PtyConnection::end_input() const { return send_text(state_, {{"type", "eof"}}); }
Task<void> PtyConnection::resize(int columns, int rows) const {
  return send_text(state_, {{"type", "resize"}, {"cols", columns}, {"rows", rows}});
}
Task<void> PtyConnection::signal(std::string name) const {
  return send_text(state_, {{"type", "signal"}, {"signal", name}});
}
Task<void> PtyConnection::ping() const { return send_text(state_, {{"type", "ping"}}); }
std::uint64_t PtyConnection::offset() const { return state_->offset; }
net::awaitable<void> PtyConnection::detach() const { return close_it(state_); }

Task<std::string> Ptys::create(PtyCreateOptions options) const { return make_pty(sandbox_, std::move(options)); }
Task<PtyStatus> Ptys::status(std::string id) const { return pty_status(sandbox_, std::move(id)); }
Task<void> Ptys::remove(std::string id) const {
  return tell_execd(sandbox_, {.method = "DELETE", .target = "/pty/" + encode(id)});
}

Task<PtyConnection> Ptys::attach(std::string id, PtyAttachOptions options) const {
  if (id.empty()) return failed_task<PtyConnection>(invalid_argument("terminal id: must not be empty"));
  std::string target = "/pty/" + encode(id) + "/ws";
  add_query(target, "since", std::to_string(options.since));
  if (options.mode == PtyAttachOptions::Mode::Pipes) add_query(target, "pty", "0");
  if (options.takeover) add_query(target, "takeover", "1");
  if (options.read_only) add_query(target, "readonly", "1");
  if (options.input_acks) add_query(target, "acks", "1");
  if (!options.start) add_query(target, "start", "0");
  return connect(sandbox_, std::move(target), options.since);
}

}  // namespace opensandbox::async
