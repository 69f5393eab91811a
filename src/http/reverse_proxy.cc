#include "http/reverse_proxy.h"

#include <array>
#include <vector>

#include "async/race.h"
#include "base/parse_number.h"
#include "http/websocket_relay.h"

namespace osb::http {
namespace {

using namespace race;

// An answer up to this size that has arrived whole is passed on as text: no stream to set up, and upstream's connection
// is free for the next request at once.
constexpr std::size_t kWholeBody = 16 * 1024;

// RFC 9110, 7.6.1: these belong to one connection, and so do the fields that Connection names. `connection`: the
// message's Connection fields.
bool hop_by_hop(std::string_view name, const Headers& connection) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "Connection", "Keep-Alive",        "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "TE",
      "Trailer",    "Transfer-Encoding", "Upgrade"};
  for (const std::string_view known : kNames) {
    if (iequals(name, known)) return true;
  }
  return !connection.empty() && connection.has_token("Connection", name);
}

Headers connection_fields(const Headers& all) {
  Headers out;
  for (const auto& [name, value] : all) {
    if (iequals(name, "Connection")) out.add(name, value);
  }
  return out;
}

net::awaitable<Result<void>> copy_body(BodySource& from, BodyWriter& to) {
  for (;;) {
    auto piece = co_await from.read();
    if (!piece) co_return Failure(piece.error());
    if (piece->empty()) co_return Result<void>();
    if (auto sent = co_await to.write(*piece); !sent) co_return Failure(sent.error());
  }
}

net::awaitable<Result<void>> stream_body(std::unique_ptr<BodySource> from, BodyWriter& to) {
  // Bytes that are here already need no watching.
  while (from->ready()) {
    auto piece = co_await from->read();
    if (!piece) co_return Failure(piece.error());
    if (piece->empty()) co_return Result<void>();
    if (auto sent = co_await to.write(std::span(&*piece, 1)); !sent) co_return Failure(sent.error());
  }
  // The rest ends when the client leaves, not when upstream happens to send the next byte.
  if (auto sent = co_await to.flush(); !sent) co_return Failure(sent.error());
  auto first = co_await (copy_body(*from, to) || to.peer_closed());
  if (first.index() == 1) co_return fail(Code::Cancelled, "the client left");
  co_return std::get<0>(first);
}

// One direction of an upgraded connection: end-of-stream is passed on as such, anything else ends both.
net::awaitable<void> splice_one(Transport& from, Transport& to, std::string first) {
  if (!first.empty() && !co_await to.write_all(first)) {
    from.close();
    to.close();
    co_return;
  }
  std::vector<char> buffer(16 * 1024);
  for (;;) {
    auto got = co_await from.read_some(buffer);
    if (got && *got == 0) {
      to.shutdown_write();
      co_return;
    }
    if (!got || !co_await to.write_all(std::string_view(buffer.data(), *got))) {
      from.close();
      to.close();
      co_return;
    }
    if (*got == buffer.size() && buffer.size() < 256 * 1024) buffer.resize(buffer.size() * 4);
  }
}

net::awaitable<void> splice(Transport& client, std::string from_client, std::unique_ptr<Transport> upstream,
                            std::string from_upstream) {
  co_await (splice_one(client, *upstream, std::move(from_client)) &&
            splice_one(*upstream, client, std::move(from_upstream)));
}

ClientRequest request_for(Request& request, ProxyTarget& target) {
  ClientRequest out;
  out.method = request.method;
  out.target = std::move(target.target);
  out.timeouts = target.timeouts;
  out.asker = request.connection;
  if (request.body->length() != 0u) out.stream = request.body;

  out.headers = std::move(request.headers);
  const Headers connection = connection_fields(out.headers);
  std::string upgrade;
  if (connection.has_token("Connection", "upgrade")) upgrade = out.headers.get("Upgrade");
  out.headers.remove_if([&](const Headers::Field& field) {
    // The length follows from the body; Expect is answered here, our own session sends the 100.
    return hop_by_hop(field.name, connection) || iequals(field.name, "Content-Length") || iequals(field.name, "Expect");
  });
  for (const std::string& name : target.drop) out.headers.remove(name);
  for (const auto& [name, value] : target.add) out.headers.set(name, value);
  out.confidential = target.confidential;
  if (target.confidential) target.add.wipe();
  if (!target.host.empty()) out.headers.set("Host", target.host);
  if (!upgrade.empty()) {
    out.headers.set("Connection", "Upgrade");
    out.headers.set("Upgrade", std::move(upgrade));
  }
  return out;
}

// The length of upstream's body; in answer to a HEAD our session sends no body anyway.
std::optional<std::uint64_t> declared_length(const Headers& headers) {
  return parse_number<std::uint64_t>(headers.get("Content-Length"));
}

Response response_for(ClientResponse answer, bool to_head) {
  Response response;
  response.status = answer.status;
  if (answer.upgraded) {
    response.headers = std::move(answer.headers);
    const bool websocket = response.headers.has_token("Upgrade", "websocket");
    response.body = [websocket, upstream = std::move(answer.upgraded), early = std::move(answer.buffered)](
                        Transport& transport, std::string buffered) mutable -> net::awaitable<void> {
      if (websocket) {
        return relay_websocket(transport, std::move(buffered), std::move(upstream), std::move(early));
      }
      return splice(transport, std::move(buffered), std::move(upstream), std::move(early));
    };
    return response;
  }
  if (auto whole = to_head ? std::nullopt : answer.body->take_whole(kWholeBody)) {
    response.body = std::move(*whole);
  } else {
    const auto length = to_head ? declared_length(answer.headers) : answer.body->length();
    response.body = StreamBody{
        .produce = [body = std::move(answer.body)](BodyWriter& to) mutable { return stream_body(std::move(body), to); },
        .length = length};
  }
  response.headers = std::move(answer.headers);
  const Headers connection = connection_fields(response.headers);
  response.headers.remove_if([&](const Headers::Field& field) { return hop_by_hop(field.name, connection); });
  return response;
}

net::awaitable<Response> relay(net::awaitable<Result<ClientResponse>> sending, bool to_head,
                               std::function<Response(const Error&)> on_error, std::string_view error_code) {
  auto answer = co_await std::move(sending);
  if (answer) co_return response_for(std::move(*answer), to_head);
  if (on_error) co_return on_error(answer.error());
  const bool slow = answer.error().code == Code::Timeout;
  co_return problem(slow ? 504 : 502, error_code, answer.error().message);
}

}  // namespace

net::awaitable<Response> forward(Client& client, Request& request, ProxyTarget target, std::string_view error_code) {
  const bool to_head = request.method == "HEAD";
  ClientRequest out = request_for(request, target);
  return relay(client.send(std::move(target.origin), std::move(out)), to_head, std::move(target.on_error), error_code);
}

}  // namespace osb::http
