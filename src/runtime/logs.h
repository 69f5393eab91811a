#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/net.h"
#include "base/error.h"
#include "base/time.h"
#include "base/timed_log.h"

namespace osb::runtime {

// The part of an entrypoint's output to read.
struct LogsFrom {
  std::optional<Timestamp> since = {};
  std::optional<std::size_t> tail = {};  // the last lines; with `since` the smaller part of the two
  bool follow = false;                   // goes on until the entrypoint has ended
};

// Output of an entrypoint, pulled: what is not read stays where the backend keeps it.
class LogStream {
 public:
  virtual ~LogStream() = default;
  // The next pieces; empty at the end. A sandbox that is removed and a backend that is lost are errors.
  virtual net::awaitable<Result<std::vector<LogPiece>>> next() = 0;
};

// Output of entrypoints. Every line begins with an RFC 3339 time and a space.
class Logs {
 public:
  virtual ~Logs() = default;
  // The last `bytes` that the entrypoint has written.
  virtual net::awaitable<Result<std::string>> tail(std::string id, std::size_t bytes) = 0;
  virtual net::awaitable<Result<std::unique_ptr<LogStream>>> open(std::string id, LogsFrom from) = 0;
};

}  // namespace osb::runtime
