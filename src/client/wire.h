#pragma once

#include <chrono>
#include <memory>
#include <opensandbox/async.h>
#include <optional>
#include <string>

#include <boost/asio/any_io_executor.hpp>

#include "http/body.h"
#include "http/client.h"
#include "http/headers.h"

namespace opensandbox {

namespace net = boost::asio;

// The target of requests: the server, or a port of a sandbox.
struct Peer {
  static Result<Peer> parse(const std::string& url);  // http[s]://host[:port][/prefix]
  std::string origin;                                 // as http::Client wants it
  std::string host;                                   // for the Host field
  std::string prefix;                                 // in front of every path
  StringMap headers;                                  // override the configuration's
};

struct Call {
  std::string method = "GET";
  std::string target = "/";  // path and query, encoded
  std::string body = {};
  std::string content_type = {};
  std::shared_ptr<osb::http::BodySource> stream = {};  // instead of body
  osb::http::Headers headers = {};
  std::optional<std::chrono::milliseconds> head_timeout = {};  // nothing: as configured
  bool endless = false;                                        // the answer may pause for any time
};

// `body` as JSON.
Call json_call(std::string method, std::string target, std::string body);

struct Reply {
  int status = 0;
  osb::http::Headers headers;
  std::string request_id;
  std::string body;
};

struct StreamReply {
  int status = 0;
  osb::http::Headers headers;
  std::string request_id;
  std::unique_ptr<osb::http::BodySource> body;
};

// Percent-encoded as one path segment or query value.
std::string encode(std::string_view text);
// Adds "?key=value" or "&key=value" to a target.
void add_query(std::string& target, std::string_view key, std::string_view value);

// One connection pool on one executor.
struct async::Client::State : std::enable_shared_from_this<async::Client::State> {
  net::any_io_executor executor;
  ConnectionConfig config;                          // resolved
  std::unique_ptr<osb::http::Connector> connector;  // for WebSockets, which leave the pool
  std::unique_ptr<osb::http::Client> http;
  Peer server;       // with /v1
  std::string root;  // of the server, without /v1

  // The whole answer; statuses from 400 on are errors. The state outlives the call.
  Task<Reply> call(Peer peer, Call call);
  // The answer as it comes.
  Task<StreamReply> open(Peer peer, Call call);
  // Again, while the server says that the sandbox was not woken in time and that nothing was forwarded.
  Task<osb::http::ClientResponse> send_until_awake(std::string origin, osb::http::ClientRequest request);

  osb::http::Headers headers_for(const Peer& peer, const osb::http::Headers& extra) const;
};

using ClientState = std::shared_ptr<async::Client::State>;

}  // namespace opensandbox
