#include "mcp/http_endpoint.h"

#include <utility>

#include <boost/asio/steady_timer.hpp>

#include "base/constant_time.h"
#include "base/id.h"
#include "base/log.h"
#include "base/text.h"
#include "http/headers.h"

namespace osb::mcp {
namespace {

constexpr std::size_t kKeptStreams = 32;  // per session, complete ones, for clients that return
constexpr std::string_view kSessionHeader = "Mcp-Session-Id";
constexpr std::string_view kVersionHeader = "MCP-Protocol-Version";

http::Response rpc_refusal(int status, std::string_view message, const json::value& id = nullptr,
                           int code = rpc::kInvalidRequest) {
  return http::json_response(status, encode_error(id, {code, std::string(message), nullptr}));
}

// Whether the Accept header takes the type; a missing one takes everything.
bool accepts(const http::Request& request, std::string_view type) {
  const std::string* header = request.headers.find("Accept");
  if (header == nullptr) return true;
  std::string_view rest = *header;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view one = http::trim_ows(rest.substr(0, comma).substr(0, rest.substr(0, comma).find(';')));
    if (http::iequals(one, type) || one == "*/*") return true;
    if (one.ends_with("/*") && http::iequals(one.substr(0, one.size() - 1), type.substr(0, one.size() - 1)))
      return true;
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return false;
}

// Empty: there is none.
std::string_view bearer_token(const http::Request& request) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view given = request.headers.get("Authorization");
  return http::iequals(given.substr(0, kBearer.size()), kBearer) ? given.substr(kBearer.size()) : std::string_view();
}

}  // namespace

struct HttpEndpoint::Client {
  Client(net::any_io_executor loop, std::string session_id)
      : id(std::move(session_id)), general(std::make_shared<EventStream>(loop, 0, std::nullopt)), idle(loop) {}

  std::string id;
  std::shared_ptr<EventStream> general;
  std::shared_ptr<ClientSession> session;
  std::map<std::uint64_t, std::shared_ptr<EventStream>> streams;  // by number; answers to POSTs
  std::uint64_t next_stream = 1;
  std::size_t connections = 0;
  bool over = false;  // ended, and cleaned up after
  net::steady_timer idle;

  std::shared_ptr<EventStream> find_stream(std::uint64_t number) const {
    if (number == 0) return general;
    const auto found = streams.find(number);
    return found == streams.end() ? nullptr : found->second;
  }
  // The oldest that are complete are dropped; those that still run stay, they are limited by the session.
  void forget_old_streams() {
    std::size_t surplus = streams.size() > kKeptStreams ? streams.size() - kKeptStreams : 0;
    for (auto each = streams.begin(); each != streams.end() && surplus > 0;) {
      if (!each->second->complete()) {
        ++each;
        continue;
      }
      each = streams.erase(each);
      --surplus;
    }
  }
};

HttpEndpoint::HttpEndpoint(net::any_io_executor loop, sdk::Client client, const std::vector<Tool>& tools,
                           SessionOptions session_options, HttpOptions options)
    : loop_(loop),
      client_(std::move(client)),
      tools_(tools),
      session_options_(session_options),
      options_(std::move(options)),
      ended_(loop),
      tasks_(loop) {}

HttpEndpoint::~HttpEndpoint() = default;

bool HttpEndpoint::has_token(const http::Request& request) const {
  return options_.token.empty() || equal_in_constant_time(options_.token, bearer_token(request));
}

http::Response HttpEndpoint::refusal(const http::Request& request, bool& refused) const {
  refused = true;
  if (request.path() != options_.path)
    return rpc_refusal(404, "there is nothing here; the endpoint is " + options_.path);
  const std::string_view host = request.headers.get("Host");
  const std::string* origin = request.headers.find("Origin");
  if (origin != nullptr && !options_.web.allows_origin(*origin, host)) {
    return rpc_refusal(403, "this origin is not allowed; see --allow-origin");
  }
  if (!options_.web.allows_host(host)) {
    return rpc_refusal(403, "this name is not allowed in the Host header; see --allow-host");
  }
  if (request.method != "OPTIONS" && !has_token(request)) {
    const bool given = !bearer_token(request).empty();
    http::Response response = rpc_refusal(401, given ? "the bearer token is wrong" : "a bearer token is needed");
    response.headers.set("WWW-Authenticate", "Bearer");
    return response;
  }
  if (const std::string* version = request.headers.find(kVersionHeader); version && !is_supported_version(*version)) {
    return rpc_refusal(400, "MCP-Protocol-Version: this version is not supported");
  }
  refused = false;
  return {};
}

net::awaitable<http::Response> HttpEndpoint::handle(http::Request& request) {
  bool refused = false;
  http::Response response = refusal(request, refused);
  if (!refused) {
    if (request.method == "POST") {
      response = co_await post(request);
    } else if (request.method == "GET") {
      response = get(request);
    } else if (request.method == "DELETE") {
      response = co_await remove(request);
    } else if (request.method == "OPTIONS") {
      response = http::empty_response(204);
      response.headers.set("Access-Control-Allow-Methods", "GET, POST, DELETE");
      response.headers.set("Access-Control-Allow-Headers",
                           "Authorization, Content-Type, Last-Event-ID, MCP-Protocol-Version, Mcp-Session-Id");
    } else {
      response = rpc_refusal(405, "the endpoint takes GET, POST and DELETE");
      response.headers.set("Allow", "GET, POST, DELETE");
    }
    // Pages of allowed origins may read the answers.
    if (const std::string* origin = request.headers.find("Origin")) {
      response.headers.set("Access-Control-Allow-Origin", *origin);
      response.headers.set("Access-Control-Expose-Headers", std::string(kSessionHeader));
      response.headers.set("Vary", "Origin");
    }
  }
  co_return response;
}

HttpEndpoint::ClientPtr HttpEndpoint::find(const http::Request& request, http::Response& refused) {
  const std::string* id = request.headers.find(kSessionHeader);
  if (id == nullptr) {
    refused = rpc_refusal(400, "Mcp-Session-Id is missing; a session begins with initialize");
    return nullptr;
  }
  const auto found = clients_.find(*id);
  if (found != clients_.end()) return found->second;
  refused = rpc_refusal(404, "there is no such session (any more); begin a new one with initialize");
  return nullptr;
}

net::awaitable<http::Response> HttpEndpoint::post(http::Request& request) {
  if (!http::is_json_type(request.headers.get("Content-Type"))) {
    co_return rpc_refusal(415, "Content-Type: expected application/json");
  }
  if (!accepts(request, "application/json") && !accepts(request, "text/event-stream")) {
    co_return rpc_refusal(406, "Accept: expected application/json and text/event-stream");
  }
  auto body = co_await request.body->read_all(kMaxMessageBytes);
  if (!body) co_return rpc_refusal(http::status_of(body.error().code), body.error().message);
  Payload payload = decode_payload(*body);
  if (const Malformed* malformed = std::get_if<Malformed>(&payload.messages.front());
      malformed != nullptr && payload.messages.size() == 1) {
    co_return http::json_response(400, encode_error(malformed->id, malformed->error));
  }
  const Message* first = std::get_if<Message>(&payload.messages.front());
  const bool begins = first != nullptr && first->method == "initialize" && payload.messages.size() == 1;
  if (!begins) {
    http::Response refused;
    const ClientPtr client = find(request, refused);
    if (client) co_return co_await post_to(client, std::move(payload), request);
    // With the request's id, so that a client that only tries methods out understands it as an answer.
    if (first != nullptr && first->kind == Message::Kind::Request && refused.status == 400) {
      co_return rpc_refusal(400, "Mcp-Session-Id is missing; a session begins with initialize", first->id);
    }
    co_return refused;
  }
  if (request.headers.contains(kSessionHeader)) {
    co_return rpc_refusal(400, "initialize begins a new session: send it without Mcp-Session-Id", first->id);
  }
  if (closing_ || clients_.size() >= options_.max_sessions) {
    co_return rpc_refusal(503, "there are too many sessions; try again later", first->id, rpc::kBusy);
  }
  const auto client = std::make_shared<Client>(loop_, new_uuid());
  client->session = std::make_shared<ClientSession>(loop_, client_, tools_, session_options_, client->general);
  http::Response response = co_await post_to(client, std::move(payload), request);
  if (client->session->initialized()) {
    log_info("session begins", {{"peer", request.peer}, {"sessions", clients_.size() + 1}});
    clients_.emplace(client->id, client);
    response.headers.set(kSessionHeader, client->id);
    if (client->connections == 0) leave(client);  // starts the clock
  }
  co_return response;
}

net::awaitable<http::Response> HttpEndpoint::post_to(ClientPtr client, Payload payload, const http::Request& request) {
  const std::size_t requests = answers_wanted(payload);
  const bool batch = payload.batch;
  const auto events = std::make_shared<EventStream>(loop_, client->next_stream++, requests);
  enter(*client);
  client->session->receive(std::move(payload), events);
  if (requests == 0) {
    leave(client);
    co_return http::empty_response(202);
  }
  const bool stream_taken = accepts(request, "text/event-stream");
  const bool json_taken = accepts(request, "application/json");
  if (!stream_taken) {
    // Only one object fits: messages other than answers are dropped.
    while (!events->complete()) co_await events->wait();
  }
  if (events->complete() && json_taken && (!batch || !stream_taken)) {
    leave(client);
    std::string text = joined(events->answers(), ",");
    if (batch) text = "[" + text + "]";
    co_return text.empty() ? http::empty_response(202) : http::json_response(200, std::move(text));
  }
  client->streams.emplace(events->number(), events);
  client->forget_old_streams();
  const bool prime = client->session->version() >= "2025-11-25";
  http::Response response = stream(client, events, 0, prime);
  leave(client);
  co_return response;
}

http::Response HttpEndpoint::stream(const ClientPtr& client, std::shared_ptr<EventStream> events, std::uint64_t after,
                                    bool prime) {
  enter(*client);
  return http::event_stream([this, client, events = std::move(events), after,
                             prime](http::BodyWriter& writer) -> net::awaitable<Result<void>> {
    return copy(client, events, after, prime, writer);
  });
}

net::awaitable<Result<void>> HttpEndpoint::copy(ClientPtr client, std::shared_ptr<EventStream> events,
                                                std::uint64_t after, bool prime, http::BodyWriter& writer) {
  Result<void> result;
  try {
    result = co_await events->copy_to(writer, after, prime);
  } catch (...) {
    leave(client);
    throw;
  }
  leave(client);
  co_return result;
}

http::Response HttpEndpoint::get(const http::Request& request) {
  if (!accepts(request, "text/event-stream")) return rpc_refusal(406, "Accept: expected text/event-stream");
  http::Response refused;
  const ClientPtr client = find(request, refused);
  if (!client) return refused;
  const std::string* last = request.headers.find("Last-Event-ID");
  if (last == nullptr || last->empty()) return stream(client, client->general, client->general->sent(), false);
  const auto id = EventStream::parse_id(*last);
  const auto events = id ? client->find_stream(id->stream) : nullptr;
  // Nothing more will come there: 204 tells a client to stop asking.
  if (!events || (events->complete() && events->count() <= id->event)) return http::empty_response(204);
  return stream(client, events, id->event, false);
}

// Answers when everything has been cleaned up.
net::awaitable<http::Response> HttpEndpoint::remove(http::Request& request) {
  http::Response refused;
  const ClientPtr client = find(request, refused);
  if (!client) co_return refused;
  end(client);
  co_await ended_.wait_until([client] { return client->over; });
  co_return http::empty_response(204);
}

void HttpEndpoint::enter(Client& client) {
  ++client.connections;
  client.idle.cancel();
}

void HttpEndpoint::leave(const ClientPtr& client) {
  if (client->connections > 0) --client->connections;
  if (client->connections > 0 || closing_) return;
  client->idle.expires_after(options_.session_timeout);
  client->idle.async_wait([this, weak = std::weak_ptr(client)](const boost::system::error_code& cancelled) {
    const ClientPtr idle = weak.lock();
    if (cancelled || !idle || idle->connections > 0) return;
    log_info("session ends: no connection for too long");
    end(idle);
  });
}

void HttpEndpoint::end(ClientPtr client) {
  if (clients_.erase(client->id) == 0) return;
  client->idle.cancel();
  client->general->close();
  for (const auto& [number, events] : client->streams) events->close();
  ++ending_;
  tasks_.spawn("end session", finish(std::move(client)));
}

net::awaitable<void> HttpEndpoint::finish(ClientPtr client) {
  co_await client->session->close();
  client->over = true;
  --ending_;
  ended_.notify_all();
}

net::awaitable<void> HttpEndpoint::close() {
  closing_ = true;
  while (!clients_.empty()) end(clients_.begin()->second);
  co_await ended_.wait_until([this] { return ending_ == 0; });
  co_await tasks_.close();
}

}  // namespace osb::mcp
