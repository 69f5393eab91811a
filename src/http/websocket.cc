#include "http/websocket.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <boost/asio/this_coro.hpp>

#include "http/parser.h"
#include "http/status.h"
#include "http/websocket_connection.h"
#include "http/websocket_key.h"

namespace osb::http {
namespace {

constexpr std::size_t kMaxHeadBytes = 64 * 1024;
constexpr auto kHandshakeTime = std::chrono::seconds(30);

using Run = std::move_only_function<net::awaitable<void>(WebSocket&)>;

class Handle final : public WebSocket {
 public:
  explicit Handle(std::shared_ptr<ws::Connection> connection) : connection_(std::move(connection)) {}
  ~Handle() override { connection_->detach(); }

  net::awaitable<Result<Message>> read() override { return connection_->read(); }
  net::awaitable<Result<void>> send_text(std::string_view text) override {
    return connection_->send(ws::Opcode::Text, text);
  }
  net::awaitable<Result<void>> send_binary(std::string_view bytes) override {
    return connection_->send(ws::Opcode::Binary, bytes);
  }
  net::awaitable<void> close(std::uint16_t code, std::string reason) override {
    return connection_->close(code, std::move(reason));
  }
  net::awaitable<void> closed() override { return connection_->closed(); }
  std::uint16_t close_code() const override { return connection_->close_code(); }
  std::string_view close_reason() const override { return connection_->close_reason(); }

 private:
  std::shared_ptr<ws::Connection> connection_;
};

// The whole life of a server's connection. The transport belongs to the session, so nothing may use it afterwards.
net::awaitable<void> serve(Run run, WebSocket::Options options, Transport& transport, std::string buffered) {
  const auto connection =
      std::make_shared<ws::Connection>(transport, nullptr, ws::Role::Server, options, std::move(buffered));
  connection->start();
  Handle handle(connection);
  std::exception_ptr thrown;
  try {
    co_await run(handle);
  } catch (...) {
    thrown = std::current_exception();
  }
  const bool cancelled = (co_await net::this_coro::cancellation_state).cancelled() != net::cancellation_type::none;
  co_await net::this_coro::reset_cancellation_state(net::disable_cancellation());
  if (cancelled) {
    connection->abort(ws::close_code::kGoingAway);
  } else {
    co_await connection->close(thrown ? ws::close_code::kInternalError : ws::close_code::kNormal, {});
  }
  co_await connection->finish();
  co_await net::this_coro::reset_cancellation_state(net::enable_terminal_cancellation());
  if (thrown) std::rethrow_exception(thrown);
}

bool asks_for_websocket(const Request& request) {
  return request.method == "GET" && request.minor_version >= 1 && request.headers.has_token("Connection", "upgrade") &&
         request.headers.has_token("Upgrade", "websocket") && ws::is_key(request.headers.get("Sec-WebSocket-Key"));
}

bool is_clean(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

Result<std::string> handshake_request(const std::string& host, const std::string& target, const Headers& extra,
                                      const std::string& key) {
  if (!is_clean(host) || !is_clean(target) || target.find(' ') != std::string::npos || !target.starts_with('/')) {
    return fail(Code::InvalidRequest, "websocket: host or target cannot be sent");
  }
  std::string out =
      "GET " + target + " HTTP/1.1\r\nHost: " + host +
      "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key +
      "\r\n";
  for (const auto& [name, value] : extra) {
    if (!is_clean(name) || !is_clean(value)) {
      return fail(Code::InvalidRequest, "websocket: header " + name + " cannot be sent");
    }
    out += name + ": " + value + "\r\n";
  }
  return out + "\r\n";
}

Result<void> check_answer(const ResponseHead& head, std::string_view body, const Headers& extra,
                          const std::string& key) {
  if (head.status != 101) {
    std::string message = "answered HTTP " + std::to_string(head.status);
    if (!body.empty()) message += ": " + std::string(body.substr(0, 512));
    const Code code = code_of(head.status);
    return fail(code == Code::Internal ? Code::Unavailable : code, std::move(message));
  }
  if (!head.headers.has_token("Upgrade", "websocket") || !head.headers.has_token("Connection", "upgrade") ||
      head.headers.get("Sec-WebSocket-Accept") != ws::accept_for(key)) {
    return fail(Code::Unavailable, "answered 101 but not for this handshake");
  }
  if (head.headers.contains("Sec-WebSocket-Extensions")) {
    return fail(Code::Unavailable, "chose an extension that was not offered");
  }
  const std::string* chosen = head.headers.find("Sec-WebSocket-Protocol");
  if (chosen != nullptr && !extra.has_token("Sec-WebSocket-Protocol", *chosen)) {
    return fail(Code::Unavailable, "chose a subprotocol that was not offered");
  }
  return {};
}

// Sends the request and returns what came behind the answer's head.
net::awaitable<Result<std::string>> shake_hands(Transport& transport, const std::string& host,
                                                const std::string& target, const Headers& extra) {
  const std::string key = ws::new_key();
  const auto request = handshake_request(host, target, extra, key);
  if (!request) co_return Failure(request.error());
  if (auto sent = co_await transport.write_all(*request); !sent) co_return Failure(sent.error());
  std::string received;
  std::size_t searched = 0;
  std::size_t head_end = 0;
  while ((head_end = find_head_end(received, searched)) == 0) {
    if (received.size() > kMaxHeadBytes) co_return fail(Code::Unavailable, "answered with too long a head");
    const std::size_t have = received.size();
    received.resize(have + 4096);
    const auto got = co_await transport.read_some({received.data() + have, 4096});
    if (!got) co_return Failure(got.error());
    if (*got == 0) co_return fail(Code::Unavailable, "left during the handshake");
    received.resize(have + *got);
  }
  const auto head = parse_response_head(std::string_view(received).substr(0, head_end), false);
  if (!head) co_return Failure(head.error());
  received.erase(0, head_end);
  if (auto fine = check_answer(*head, received, extra, key); !fine) co_return Failure(fine.error());
  co_return received;
}

}  // namespace

bool is_websocket_upgrade(const Request& request) {
  return asks_for_websocket(request) && request.headers.get("Sec-WebSocket-Version") == "13";
}

Response websocket_response(const Request& request, WebSocket::Options options, Run run, std::string_view subprotocol) {
  if (!asks_for_websocket(request)) {
    return problem(400, "GENERAL::BAD_REQUEST", "expected a WebSocket handshake: GET with Upgrade: websocket");
  }
  if (!is_websocket_upgrade(request)) {
    Response response = problem(426, "GENERAL::BAD_REQUEST", "only WebSocket version 13 is spoken here");
    response.headers.set("Sec-WebSocket-Version", "13");
    return response;
  }
  Response response;
  response.status = 101;
  response.headers.add("Upgrade", "websocket");
  response.headers.add("Connection", "Upgrade");
  response.headers.add("Sec-WebSocket-Accept", ws::accept_for(request.headers.get("Sec-WebSocket-Key")));
  if (!subprotocol.empty() && request.headers.has_token("Sec-WebSocket-Protocol", subprotocol)) {
    response.headers.add("Sec-WebSocket-Protocol", std::string(subprotocol));
  }
  response.body = UpgradeHandler([run = std::move(run), options](Transport& transport, std::string buffered) mutable {
    return serve(std::move(run), options, transport, std::move(buffered));
  });
  return response;
}

net::awaitable<Result<std::unique_ptr<WebSocket>>> websocket_connect(std::unique_ptr<Transport> transport,
                                                                     std::string host, std::string target,
                                                                     Headers extra, WebSocket::Options options) {
  transport->set_timeout(kHandshakeTime);
  auto buffered = co_await shake_hands(*transport, host, target, extra);
  if (!buffered) co_return with_context("websocket " + host, buffered.error());
  Transport& used = *transport;
  auto connection =
      std::make_shared<ws::Connection>(used, std::move(transport), ws::Role::Client, options, std::move(*buffered));
  connection->start();
  co_return std::make_unique<Handle>(std::move(connection));
}

}  // namespace osb::http
