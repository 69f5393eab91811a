#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "async/net.h"
#include "http/client.h"
#include "redis/address.h"
#include "redis/resp.h"

namespace osb::redis {

// One connection that has logged in. One command at a time. After an error other than Code::Conflict, which is Redis's
// own answer, the connection is of no use any more.
class Connection {
 public:
  // `connector` knows names and TLS; it outlives the call.
  static net::awaitable<Result<Connection>> open(http::Connector& connector, Address address,
                                                 std::chrono::milliseconds timeout, Limits limits = {});

  // Nothing within `timeout` between two pieces of the answer: Code::Timeout. An error that Redis answers:
  // Code::Conflict, with its text.
  net::awaitable<Result<Reply>> call(std::vector<std::string> words, std::chrono::milliseconds timeout);

 private:
  Connection(std::unique_ptr<http::Transport> transport, Limits limits)
      : transport_(std::move(transport)), limits_(limits) {}

  std::unique_ptr<http::Transport> transport_;
  Limits limits_;
  std::string buffer_;
};

}  // namespace osb::redis
