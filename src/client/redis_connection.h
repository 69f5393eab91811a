#pragma once

#include <chrono>
#include <cstdint>
#include <opensandbox/error.h>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace opensandbox {

// An answer of Redis (RESP 2).
struct RedisValue {
  enum class Type { Nothing, Text, Number, List } type = Type::Nothing;
  std::string text;  // Text
  std::int64_t number = 0;
  std::vector<RedisValue> list;
};

// Where a Redis is and who we are to it.
struct RedisAddress {
  static Result<RedisAddress> parse(const std::string& url);
  std::string host;
  std::string port;
  std::string socket_path;  // instead of host and port
  std::string user;
  std::string password;
  std::string database;
};

// One connection that blocks. Not thread-safe. After an error of the connection the next call connects again; a command
// is never sent twice.
class RedisConnection {
 public:
  RedisConnection(RedisAddress address, std::chrono::milliseconds timeout)
      : address_(std::move(address)), timeout_(timeout) {}

  // Errors, those of Redis included, are ErrorKind::Pool, POOL_STATE_STORE_UNAVAILABLE.
  Result<RedisValue> call(const std::vector<std::string>& command);

 private:
  Result<void> connect();
  Result<void> open_socket();
  Result<RedisValue> exchange(const std::vector<std::string>& command);
  Result<void> wait(short events, std::chrono::steady_clock::time_point until);
  Result<std::string> line(std::chrono::steady_clock::time_point until);
  Result<std::string> bytes(std::size_t count, std::chrono::steady_clock::time_point until);
  Result<void> fill(std::chrono::steady_clock::time_point until);
  Result<RedisValue> value(std::chrono::steady_clock::time_point until, int depth);

  const RedisAddress address_;
  const std::chrono::milliseconds timeout_;
  osb::UniqueFd socket_;
  std::string received_;
};

}  // namespace opensandbox
