#pragma once

#include <string>
#include <vector>

#include "api/lifecycle_pool.h"
#include "async/net.h"
#include "base/error.h"

namespace osb::runtime {

// Pods that wait for sandboxes. Errors carry the contract's codes: KUBERNETES::POOL_NOT_FOUND, ..
class Pools {
 public:
  virtual ~Pools() = default;
  virtual net::awaitable<Result<api::Pool>> create(api::CreatePool pool) = 0;
  virtual net::awaitable<Result<std::vector<api::Pool>>> list() = 0;
  virtual net::awaitable<Result<api::Pool>> get(std::string name) = 0;
  virtual net::awaitable<Result<api::Pool>> resize(std::string name, api::PoolCapacity capacity) = 0;
  virtual net::awaitable<Result<void>> remove(std::string name) = 0;
};

}  // namespace osb::runtime
