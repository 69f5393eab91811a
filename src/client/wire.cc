#include "client/wire.h"

#include <algorithm>
#include <opensandbox/connection.h>

#include "async/timer.h"
#include "base/deadline.h"
#include "base/stopwatch.h"
#include "client/errors.h"
#include "http/url.h"
#include "tls/connector.h"
#include "tls/context.h"

namespace opensandbox {
namespace {

using osb::http::Headers;
using std::chrono::milliseconds;

// Answers that are read whole: listings and logs, never files.
constexpr std::size_t kLargestAnswer = 256 * 1024 * 1024;
constexpr milliseconds kLongestConnect{10'000};
constexpr int kMostWakes = 5;
constexpr milliseconds kWakePause{1000};  // as Retry-After of the contract says

void report(const ConnectionConfig& config, const std::string& method, const std::string& target,
            const std::string& outcome, std::string_view request_id, const osb::Stopwatch& time) {
  if (!config.debug) return;
  const auto took = std::chrono::duration_cast<milliseconds>(time.elapsed()).count();
  std::string line =
      method + ' ' + target.substr(0, target.find('?')) + ' ' + outcome + ' ' + std::to_string(took) + " ms";
  if (!request_id.empty()) line.append(" ").append(request_id);
  config.debug(line);
}

}  // namespace

Result<Peer> Peer::parse(const std::string& url) {
  const auto parsed = osb::http::Url::parse(url);
  if (!parsed || parsed->scheme == "unix" || parsed->host.empty()) {
    return invalid_response("address \"" + url + "\" of the endpoint cannot be used");
  }
  Peer peer;
  const std::string host = parsed->host.contains(':') ? '[' + parsed->host + ']' : parsed->host;
  peer.host = host + ':' + std::to_string(parsed->port);
  peer.origin = parsed->scheme + "://" + peer.host;
  peer.prefix = parsed->target;
  while (peer.prefix.ends_with('/')) peer.prefix.pop_back();
  return peer;
}

Call json_call(std::string method, std::string target, std::string body) {
  Call call;
  call.method = std::move(method);
  call.target = std::move(target);
  call.body = std::move(body);
  call.content_type = "application/json";
  return call;
}

std::string encode(std::string_view text) { return osb::http::percent_encode(text); }

void add_query(std::string& target, std::string_view key, std::string_view value) {
  target += target.contains('?') ? '&' : '?';
  target.append(key).append("=").append(encode(value));
}

Headers async::Client::State::headers_for(const Peer& peer, const Headers& extra) const {
  Headers out;
  out.add("Host", peer.host);
  out.add("User-Agent", config.user_agent);
  out.add("Accept", "*/*");
  for (const auto& [name, value] : config.headers) out.set(name, value);
  // The key is the server's business: sandboxes are reached with tokens of their own, also through the server's proxy.
  if (&peer == &server || (peer.origin == server.origin && peer.prefix == server.prefix)) {
    if (!config.api_key.empty()) out.set("OPEN-SANDBOX-API-KEY", config.api_key);
  }
  for (const auto& [name, value] : peer.headers) out.set(name, value);
  for (const auto& [name, value] : extra) out.set(name, value);
  return out;
}

async::Task<osb::http::ClientResponse> async::Client::State::send_until_awake(std::string origin,
                                                                              osb::http::ClientRequest request) {
  const osb::Deadline give_up(config.wake_timeout);
  for (int answers = 1;; ++answers) {
    auto response = co_await http->send(origin, request);
    if (!response) co_return from_transport(response.error());
    const bool asleep = response->status == 503 && response->headers.get("OpenSandbox-Wake") == "expired";
    if (!asleep || request.stream) co_return std::move(*response);
    if (answers == kMostWakes || give_up.left() < kWakePause) {
      co_return wake_timeout(response->headers.get("X-Request-ID"));
    }
    if (response->body) (void)co_await response->body->read_all(1024 * 1024);
    if (!co_await osb::sleep_for(kWakePause)) co_return cancelled("the call was cancelled");
  }
}

async::Task<StreamReply> async::Client::State::open(Peer peer, Call call) {
  const osb::Stopwatch time;
  osb::http::ClientRequest request;
  request.method = call.method;
  request.target = peer.prefix + call.target;
  request.headers = headers_for(peer, call.headers);
  if (!call.content_type.empty()) request.headers.set("Content-Type", call.content_type);
  request.body = std::move(call.body);
  request.stream = std::move(call.stream);
  request.timeouts.connect = std::min(config.request_timeout, kLongestConnect);
  request.timeouts.head = call.head_timeout.value_or(config.request_timeout);
  if (!call.endless) request.timeouts.body_stall = config.request_timeout;
  const std::string shown = request.target;
  auto response = co_await send_until_awake(peer.origin, std::move(request));
  if (!response) {
    report(config, call.method, shown, response.error().message, "", time);
    co_return Failure(std::move(response.error()));
  }
  StreamReply reply;
  reply.status = response->status;
  reply.request_id = response->headers.get("X-Request-ID");
  reply.headers = std::move(response->headers);
  reply.body = std::move(response->body);
  report(config, call.method, shown, std::to_string(reply.status), reply.request_id, time);
  if (reply.status >= 400 || reply.status < 200) {
    auto body = reply.body ? co_await reply.body->read_all(1024 * 1024) : osb::Result<std::string>();
    co_return Failure(api_error(reply.status, body ? *body : std::string(), reply.request_id));
  }
  if (reply.status >= 300) {
    Error error = api_error(reply.status, "redirects are not followed; is the address right?", reply.request_id);
    co_return Failure(std::move(error));
  }
  co_return reply;
}

async::Task<Reply> async::Client::State::call(Peer peer, Call call) {
  auto opened = co_await open(std::move(peer), std::move(call));
  if (!opened) co_return Failure(std::move(opened.error()));
  Reply reply;
  reply.status = opened->status;
  reply.headers = std::move(opened->headers);
  reply.request_id = std::move(opened->request_id);
  if (opened->body) {
    auto whole = opened->body->take_whole(kLargestAnswer);
    if (!whole) {
      auto body = co_await opened->body->read_all(kLargestAnswer);
      if (!body) co_return from_transport(body.error());
      whole = std::move(*body);
    }
    reply.body = std::move(*whole);
  }
  co_return reply;
}

Result<async::Client> async::Client::open(net::any_io_executor executor, ConnectionConfig config) {
  auto resolved = config.resolved();
  if (!resolved) return Failure(std::move(resolved.error()));
  auto state = std::make_shared<State>();
  state->executor = executor;
  state->config = std::move(*resolved);
  std::shared_ptr<const osb::tls::ClientContext> tls;
  if (!state->config.ca_file.empty() || state->config.insecure_tls) {
    osb::tls::ClientOptions options;
    options.ca_file = state->config.ca_file;
    options.insecure = state->config.insecure_tls;
    auto made = osb::tls::ClientContext::make(options);
    if (!made) return invalid_argument("ca_file: " + made.error().message);
    tls = std::move(*made);
  }
  state->connector = osb::tls::make_connector(executor, tls);
  state->http = std::make_unique<osb::http::Client>(osb::tls::make_connector(executor, tls));
  auto server = Peer::parse(state->config.base_url());
  if (!server) return invalid_argument(server.error().message);
  state->server = std::move(*server);
  state->root = state->config.protocol + "://" + state->config.domain;
  return Client(std::move(state));
}

const ConnectionConfig& async::Client::config() const { return state_->config; }
net::any_io_executor async::Client::executor() const { return state_->executor; }

namespace {

async::Task<void> ping_server(ClientState state) {
  Peer root = state->server;
  root.prefix.erase(root.prefix.size() - 3);  // "/v1"
  auto reply = co_await state->call(std::move(root), {.target = "/health"});
  if (!reply) co_return Failure(std::move(reply.error()));
  co_return Result<void>();
}

}  // namespace

async::Task<void> async::Client::ping() const { return ping_server(state_); }

}  // namespace opensandbox
