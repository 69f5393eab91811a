#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "async/net.h"
#include "base/error.h"
#include "base/stopwatch.h"
#include "execd/code/jupyter/jupyter_message.h"
#include "http/client.h"
#include "http/websocket.h"

namespace osb::execd::jupyter {

// The API of a Jupyter server. The token goes to that server and nowhere else, in a header: access logs show paths.
// One thread.
class JupyterServer {
 public:
  struct Options {
    std::string origin;  // "127.0.0.1:44771"
    std::string path;    // in front of /api; empty, or begins with a slash
    std::string token;
  };
  // `url` is JUPYTER_HOST: http:// and an IP address or localhost. execd speaks no TLS and resolves no names.
  static Result<Options> parse(std::string_view url, std::string token);

  explicit JupyterServer(Options options);

  // "127.0.0.1:44771", for messages.
  const std::string& address() const { return options_.origin; }

  // The name of the kernel for a language. Nothing announces that a Jupyter server listens, nor that a kernel was
  // installed, and execd starts before both: so this asks again until `limit`. A server that has been answering for a
  // while gets no new kernels, and a missing one is then reported at once.
  net::awaitable<Result<std::string>> find_kernel(std::string language, std::chrono::milliseconds limit);

  net::awaitable<Result<Session>> open_session(std::string kernel, std::string cwd);
  // Ends the kernel too. A session that is not there any more is closed.
  net::awaitable<Result<void>> close_session(std::string id);
  net::awaitable<Result<void>> interrupt(std::string kernel_id);
  // All channels of a kernel in one WebSocket. The server keeps messages for a `client` that lost its connection, and
  // sends them when it comes back. Code::NotFound: there is no such kernel.
  net::awaitable<Result<std::unique_ptr<http::WebSocket>>> open_channels(std::string kernel_id, std::string client);

 private:
  struct Answer {
    int status = 0;
    std::string body;
  };
  net::awaitable<Result<Answer>> call(std::string method, std::string path, std::string body,
                                      std::chrono::milliseconds limit);
  http::Headers authorization() const;

  const Options options_;
  http::Client client_;
  std::optional<Stopwatch> since_first_answer_;
};

}  // namespace osb::execd::jupyter
