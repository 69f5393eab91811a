#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "async/net.h"
#include "async/task_group.h"
#include "http/message.h"
#include "http/web_rules.h"
#include "mcp/client_session.h"
#include "mcp/event_stream.h"

namespace osb::mcp {

struct HttpOptions {
  std::string path = "/mcp";
  std::string token;  // every request must carry it; empty: none
  // Hosts are checked unless a token guards the endpoint. Names below localhost belong to pages of sandboxes, so they
  // are no origins.
  http::WebRules web{.loopback_origins = true};
  std::chrono::milliseconds session_timeout{1'800'000};  // without an open connection
  std::size_t max_sessions = 1000;
};

// The streamable HTTP transport on one path: POST takes messages, GET is the stream of the server's own messages,
// DELETE ends a session. Each session is a client of its own, known by an id that cannot be guessed.
class HttpEndpoint {
 public:
  HttpEndpoint(net::any_io_executor loop, sdk::Client client, const std::vector<Tool>& tools,
               SessionOptions session_options, HttpOptions options);
  ~HttpEndpoint();

  // For http::Server; it outlives the requests.
  net::awaitable<http::Response> handle(http::Request& request);

  // Whether the request has the token, or the endpoint needs none.
  bool has_token(const http::Request& request) const;

  std::size_t sessions() const { return clients_.size(); }
  // Ends all sessions, as if their clients had gone. Afterwards none begins.
  net::awaitable<void> close();

 private:
  struct Client;
  using ClientPtr = std::shared_ptr<Client>;

  // The reasons to refuse a request before it is read: wrong path, origin, host or token.
  http::Response refusal(const http::Request& request, bool& refused) const;
  net::awaitable<http::Response> post(http::Request& request);
  net::awaitable<http::Response> post_to(ClientPtr client, Payload payload, const http::Request& request);
  http::Response get(const http::Request& request);
  net::awaitable<http::Response> remove(http::Request& request);
  http::Response stream(const ClientPtr& client, std::shared_ptr<EventStream> events, std::uint64_t after, bool prime);
  net::awaitable<Result<void>> copy(ClientPtr client, std::shared_ptr<EventStream> events, std::uint64_t after,
                                    bool prime, http::BodyWriter& writer);
  ClientPtr find(const http::Request& request, http::Response& refused);
  // The session without an open connection ends after the time-out.
  void enter(Client& client);
  void leave(const ClientPtr& client);
  void end(ClientPtr client);
  net::awaitable<void> finish(ClientPtr client);

  net::any_io_executor loop_;
  sdk::Client client_;
  const std::vector<Tool>& tools_;
  const SessionOptions session_options_;
  const HttpOptions options_;
  std::map<std::string, ClientPtr> clients_;
  std::size_t ending_ = 0;
  Notifier ended_;
  bool closing_ = false;
  TaskGroup tasks_;
};

}  // namespace osb::mcp
