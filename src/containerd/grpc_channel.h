#pragma once

#include <memory>
#include <optional>
#include <string>

#include "async/net.h"
#include "async/task_group.h"
#include "base/error.h"
#include "http/headers.h"

namespace osb::containerd {

class GrpcConnection;

// A call that runs: one request, and any number of answers. Dropping it before its end cancels it on the server.
class GrpcCall {
 public:
  struct State;
  GrpcCall(std::shared_ptr<GrpcConnection> connection, std::unique_ptr<State> state);
  ~GrpcCall();
  GrpcCall(const GrpcCall&) = delete;
  GrpcCall& operator=(const GrpcCall&) = delete;

  // The next answer; nothing after the last one. The server sends no more than one ahead. Errors are the server's, with
  // its text; Unavailable when the connection broke; Cancelled when the coroutine was cancelled. The object outlives
  // the call.
  net::awaitable<Result<std::optional<std::string>>> read();

 private:
  std::shared_ptr<GrpcConnection> connection_;
  std::unique_ptr<State> state_;
};

// Calls to a gRPC server on a Unix socket, over one connection. A connection that broke is replaced with the next call.
// Lives on one executor; calls may outlive it, they then fail.
class GrpcChannel {
 public:
  GrpcChannel(net::any_io_executor executor, std::string socket);
  ~GrpcChannel();

  // `method` is "/package.Service/Method", `request` the encoded message, `metadata` in lower case.
  net::awaitable<Result<std::unique_ptr<GrpcCall>>> begin(std::string method, std::string request,
                                                          http::Headers metadata);
  // Ends the connection. Await it before the object goes.
  net::awaitable<void> close();

 private:
  const net::any_io_executor executor_;
  const std::string socket_;
  std::shared_ptr<GrpcConnection> connection_;
  TaskGroup tasks_;
};

}  // namespace osb::containerd
