#pragma once

#include <chrono>
#include <memory>
#include <opensandbox/error.h>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "redis/connection.h"

namespace opensandbox {

// One connection that blocks. Not thread-safe. After an error of the connection the next call connects again; a command
// is never sent twice.
class RedisConnection {
 public:
  RedisConnection(osb::redis::Address address, std::chrono::milliseconds timeout);

  // Errors, those of Redis included, are ErrorKind::Pool, POOL_STATE_STORE_UNAVAILABLE.
  Result<osb::redis::Reply> call(const std::vector<std::string>& command);

 private:
  osb::net::awaitable<osb::Result<osb::redis::Reply>> exchange(std::vector<std::string> command);

  const osb::redis::Address address_;
  const std::chrono::milliseconds timeout_;
  osb::net::io_context io_{1};  // runs during call() only
  std::unique_ptr<osb::http::Connector> connector_;
  std::optional<osb::redis::Connection> connection_;
};

}  // namespace opensandbox
