#include "execd/pty/pty_routes.h"

#include <utility>

#include <boost/asio/this_coro.hpp>

#include "async/race.h"
#include "base/json_escape.h"
#include "base/parse_number.h"
#include "http/url.h"

namespace osb::execd {
namespace {

using namespace race;

constexpr std::string_view kBadRequest = "INVALID_REQUEST_BODY";
constexpr std::string_view kRuntimeError = "RUNTIME_ERROR";
constexpr std::size_t kMaxBody = 16 * 1024 * 1024;
constexpr std::uint16_t kPolicyViolation = 1008;
constexpr std::uint16_t kInternalError = 1011;

struct ConnectOptions {
  PtyShell::Mode mode = PtyShell::Mode::Terminal;
  std::uint64_t since = 0;
  bool takeover = false;
  PtyClient::Access access = PtyClient::Access::Hold;
  bool input_acks = false;
  bool start = true;
  bool read_only() const { return access != PtyClient::Access::Hold; }
};

Result<ConnectOptions> parse_options(std::string_view query_text) {
  const http::Query query = http::Query::parse(query_text);
  ConnectOptions out;
  if (query.get("pty") == "0") out.mode = PtyShell::Mode::Pipes;
  out.takeover = query.get("takeover") == "1";
  if (query.get("readonly") == "1") out.access = PtyClient::Access::Watch;
  if (query.get("mode") == "viewer") out.access = PtyClient::Access::View;
  out.input_acks = query.get("acks") == "1";
  out.start = query.get("start") != "0";
  if (const std::string_view text = query.get("since"); !text.empty()) {
    const auto since = parse_number<decltype(out.since)>(text);
    if (!since) return fail(Code::InvalidRequest, "since must be a number that is not negative");
    out.since = *since;
  }
  return out;
}

http::Response unknown_session(std::string_view id) {
  return http::problem(404, "CONTEXT_NOT_FOUND", "pty session " + in_quotes(id) + ": not found");
}

net::awaitable<void> refuse(http::WebSocket& socket, std::string_view code, std::string_view message,
                            std::uint16_t close_code) {
  const std::string text = error_text(code, message);
  if (co_await socket.send_text(text)) co_await socket.close(close_code, std::string(code));
}

// Until the connection is lost. The session is kept by the caller.
net::awaitable<void> read_frames(http::WebSocket& socket, PtySession& session, PtyClient& client) {
  for (;;) {
    auto message = co_await socket.read();
    if (!message) co_return;
    ClientFrame frame = decode_client_frame(message->text, std::move(message->data));
    if (std::get_if<PingFrame>(&frame)) {
      client.push_text(pong_text());
    } else if (const auto* invalid = std::get_if<InvalidFrame>(&frame)) {
      client.push_text(error_text("INVALID_FRAME", invalid->message));
    } else if (const bool viewer = client.access() == PtyClient::Access::View;
               std::get_if<IgnoredFrame>(&frame) || (!viewer && (client.read_only() || client.end()))) {
      continue;  // may look, must not touch
    } else if (viewer) {
      client.push_text(error_text("READ_ONLY", "a viewer sends no input, signals and sizes"));
    } else if (auto* input = std::get_if<StdinFrame>(&frame)) {
      co_await session.input(std::move(input->bytes));
    } else if (std::get_if<EndOfInputFrame>(&frame)) {
      session.end_input();
    } else if (const auto* signal = std::get_if<SignalFrame>(&frame)) {
      session.signal(signal->number);
    } else if (const auto* resize = std::get_if<ResizeFrame>(&frame)) {
      session.resize(resize->columns, resize->rows);
    }
  }
}

// Until the connection is lost or the client's end has been sent.
net::awaitable<void> send_frames(http::WebSocket& socket, PtySession& session, PtyClient& client, std::string replay,
                                 std::string connected) {
  if (!replay.empty() && !co_await socket.send_binary(replay)) co_return;
  replay = std::string();
  if (!co_await socket.send_text(connected)) co_return;
  for (;;) {
    if (const auto item = co_await client.next()) {
      session.drained(client);
      const bool sent = item->text ? (co_await socket.send_text(*item->frame)).has_value()
                                   : (co_await socket.send_binary(*item->frame)).has_value();
      if (!sent) co_return;
    } else if (client.behind()) {
      const std::string missed = session.catch_up(client);
      if (!missed.empty() && !co_await socket.send_binary(missed)) co_return;
    } else if (client.end()) {
      const PtyClient::End end = *client.end();
      if (!end.text.empty() && !co_await socket.send_text(end.text)) co_return;
      co_return co_await socket.close(end.code, end.reason);
    } else {
      co_return;  // cancelled
    }
  }
}

net::awaitable<void> serve(http::WebSocket& socket, std::shared_ptr<PtySession> session, ConnectOptions options) {
  if (session->deleted()) co_return co_await refuse(socket, "SESSION_GONE", "the session was deleted", 1000);
  if (!options.read_only()) {
    // Another client may have attached during the handshake.
    if (session->held() && !options.takeover) {
      co_return co_await refuse(socket, "ALREADY_CONNECTED", "another client is connected", kPolicyViolation);
    }
    if (options.start) {
      if (auto started = session->start(options.mode); !started) {
        co_return co_await refuse(socket, "START_FAILED", started.error().message, kInternalError);
      }
    }
  }
  const auto client =
      std::make_shared<PtyClient>(co_await net::this_coro::executor, options.access, options.input_acks);
  std::string replay = session->attach(client, options.since);
  // Counted here: only this client adds input from now on.
  const auto input = options.input_acks ? std::optional(session->input_offset()) : std::nullopt;
  std::string connected = connected_text(session->id(), session->mode(), options.read_only(), input);
  struct Detach {
    ~Detach() { session.detach(client); }
    PtySession& session;
    const std::shared_ptr<PtyClient>& client;
  } detach{*session, client};
  co_await (read_frames(socket, *session, *client) ||
            send_frames(socket, *session, *client, std::move(replay), std::move(connected)) ||
            // The others may be waiting for the shell to take input or to write.
            socket.closed());
}

net::awaitable<http::Response> create_pty(PtyService& service, http::Request& request) {
  const auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return http::problem(body.error(), kBadRequest);
  const auto wanted = api::decode_create_pty(*body);
  if (!wanted) co_return http::problem(wanted.error(), kBadRequest);
  const auto session = service.create(*wanted);
  if (!session) {
    const bool refused = session.error().code == Code::InvalidRequest;
    co_return http::problem(session.error(), refused ? kBadRequest : kRuntimeError);
  }
  // A client that asks for these must know that they were not ignored.
  const bool asked = wanted->uid || !wanted->user.empty() || !wanted->envs.empty();
  const char* const accepts = asked ? R"(","accepts":["envs","user"]})" : R"("})";
  co_return http::json_response(201, R"({"session_id":")" + (*session)->id() + accepts);
}

net::awaitable<http::Response> connect_pty(PtyService& service, http::Request& request,
                                           http::WebSocket::Options socket_options) {
  auto session = service.find(request.params["id"]);
  if (!session) co_return unknown_session(request.params["id"]);
  const auto options = parse_options(request.query());
  if (!options) co_return http::problem(options.error(), kBadRequest);
  const bool upgrade = http::is_websocket_upgrade(request);
  if (!options->read_only() && session->held() && !(options->takeover && upgrade)) {
    co_return http::problem(409, "ALREADY_CONNECTED", "another client is connected to this pty session");
  }
  co_return http::websocket_response(
      request, socket_options, [session = std::move(session), options = *options](http::WebSocket& socket) mutable {
        return serve(socket, std::move(session), options);
      });
}

}  // namespace

void add_pty_routes(http::Router& router, PtyService& service, http::WebSocket::Options options) {
  router.post("/pty", [&service](http::Request& request) { return create_pty(service, request); });
  router.get("/pty/{id}", [&service](http::Request& request) -> net::awaitable<http::Response> {
    const auto session = service.find(request.params["id"]);
    if (!session) co_return unknown_session(request.params["id"]);
    co_return http::json_response(200, R"({"session_id":")" + session->id() + R"(","running":)" +
                                           (session->running() ? "true" : "false") + R"(,"output_offset":)" +
                                           std::to_string(session->output_offset()) + '}');
  });
  router.del("/pty/{id}", [&service](http::Request& request) -> net::awaitable<http::Response> {
    const std::string id = request.params["id"];
    if (!co_await service.remove(id)) co_return unknown_session(id);
    co_return http::empty_response();
  });
  router.get("/pty/{id}/ws",
             [&service, options](http::Request& request) { return connect_pty(service, request, options); });
}

}  // namespace osb::execd
