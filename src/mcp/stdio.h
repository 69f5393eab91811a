#pragma once

#include <memory>
#include <string>

#include "async/descriptor.h"
#include "async/net.h"
#include "base/unique_fd.h"
#include "mcp/client_session.h"

namespace osb::mcp {

// Newline-delimited messages on two descriptors: pipes, sockets, terminals, and files too. The descriptors become
// non-blocking while it runs where they can.
class StdioServer {
 public:
  StdioServer(net::any_io_executor loop, sdk::Client client, const std::vector<Tool>& tools, SessionOptions options);
  ~StdioServer();

  // Serves one client until its input ends or its output breaks: both mean that it has gone. Returns after its calls
  // have ended and its sandboxes are removed.
  net::awaitable<void> run(UniqueFd input, UniqueFd output);
  // Ends run() as if the client had gone.
  void stop();

 private:
  class Output;

  net::any_io_executor loop_;
  sdk::Client client_;
  const std::vector<Tool>& tools_;
  SessionOptions options_;
  Event stopping_;
};

}  // namespace osb::mcp
