#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace opensandbox {

// The kind of error, for decisions of a program.
enum class ErrorKind {
  Api,      // the server, execd or the egress sidecar answered with an error: status, code and message are theirs
  Network,  // no answer: name, connection, TLS, time-out, or a connection that broke in the middle
  InvalidResponse,  // an answer that is not what the contract says
  ReadyTimeout,     // the sandbox was not ready in time
  Unhealthy,        // the sandbox failed or ended while it was waited for
  InvalidArgument,  // refused here, nothing was sent
  Cancelled,        // a callback of the caller asked to stop, or the object was closed
  Local,            // a local file or descriptor
  Pool,             // see `code`: POOL_EMPTY, POOL_ACQUIRE_FAILED, POOL_NOT_RUNNING, POOL_STATE_STORE_...
};

// "api", "network", "invalid response", ..
std::string_view to_string(ErrorKind kind);

struct Error {
  ErrorKind kind = ErrorKind::Network;
  int status = 0;  // HTTP status; 0 where there was no answer
  std::string code =
      {};  // the server's ("SANDBOX::NOT_FOUND"), else UNEXPECTED_RESPONSE, NETWORK_ERROR, READY_TIMEOUT, WAKE_TIMEOUT,
           // UNHEALTHY, INVALID_ARGUMENT, CANCELLED, LOCAL_ERROR or one of the pool's; never empty
  std::string message = {};     // a sentence for people
  std::string request_id = {};  // X-Request-ID of the answer, "" where there was none

  bool not_found() const { return status == 404; }
  // "404 SANDBOX::NOT_FOUND: sandbox .. (request 3f..)"
  std::string to_string() const;
};

// The one way errors are reported by this library: no function throws for something that can go wrong in a healthy
// program.
//
//   auto sandbox = Sandbox::create(client, {.image = "python:3.12"});
//   if (!sandbox) return complain(sandbox.error().to_string());
template <typename T>
using Result = std::expected<T, Error>;
using Failure = std::unexpected<Error>;

}  // namespace opensandbox
