#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "opensandbox/pool.h"

namespace opensandbox {

struct RedisOptions {
  // "redis://[[user]:password@]host[:port][/database]" or "unix:/path/to/redis.sock".
  std::string url = "redis://localhost:6379";
  std::string key_prefix = "opensandbox:pool";
  std::chrono::milliseconds timeout{5'000};  // for a connection, and for an answer
};

// A pool's state in Redis, in the layout of the Python and Kotlin SDKs, so that pools of all three may share it: all
// nodes need the same prefix, pool name and creation options, and owner ids of their own. Every change is one atomic
// script with the clock of Redis. Connects with the first call, and again after a failure; a call that fails is
// POOL_STATE_STORE_UNAVAILABLE, never answered from memory. Thread-safe; calls wait for each other.
Result<std::shared_ptr<PoolStateStore>> make_redis_store(const RedisOptions& options);

}  // namespace opensandbox
