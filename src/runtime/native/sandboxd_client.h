#pragma once

#include <chrono>
#include <functional>
#include <string>

#include <boost/json/value.hpp>

#include "async/net.h"
#include "base/error.h"
#include "http/client.h"

namespace osb::runtime {

// Requests to sandboxd's Unix socket. A refusal comes back with its code; a daemon that cannot be reached, or that ends
// in the middle of an answer, is Code::Unavailable.
class SandboxdClient {
 public:
  // `timeout` is for answers that come at once; creates and image loads take as long as they take.
  SandboxdClient(std::string socket, std::chrono::milliseconds timeout);

  enum class Patience { Short, Unlimited };
  // The answer's body; an empty one is null.
  net::awaitable<Result<boost::json::value>> call(std::string method, std::string target, std::string body = "",
                                                  Patience patience = Patience::Short);
  net::awaitable<Result<std::string>> text(std::string target);
  net::awaitable<Result<std::shared_ptr<http::BodySource>>> download(std::string target);
  net::awaitable<Result<boost::json::value>> upload(std::string target, std::shared_ptr<http::BodySource> body);

  // An answer that is a JSON document a line; `on_line` gets each line, and ends the reading by an error. Success when
  // the stream ends.
  net::awaitable<Result<void>> lines(std::string method, std::string target, std::string body,
                                     std::function<Result<void>(const boost::json::value&)> on_line);

  const std::string& socket() const { return socket_; }

 private:
  net::awaitable<Result<http::ClientResponse>> send(std::string method, std::string target, std::string body,
                                                    std::shared_ptr<http::BodySource> stream, Patience patience);

  std::string socket_;
  std::chrono::milliseconds timeout_;
  http::Client client_;
};

}  // namespace osb::runtime
