#pragma once

#include <chrono>
#include <string>
#include <unordered_map>

#include "server/service/service_context.h"

namespace osb::server {

// Moves the deadlines of sandboxes that are used, if they asked for that. The context outlives it.
class AccessRenewals {
 public:
  explicit AccessRenewals(const ServiceContext& context) : context_(context) {}

  // A request through the proxy: moves the deadline in the background, at most once in a while.
  void touch(const SandboxRecord& record);
  // A request that a gateway has seen, which reports seldom enough by itself. Unknown ids are ignored.
  void touch_by_gateway(const std::string& id);
  void forget(const std::string& id) { renewed_.erase(id); }

 private:
  bool applies_to(const SandboxRecord& record) const;
  net::awaitable<void> renew(std::string id);

  const ServiceContext& context_;
  std::unordered_map<std::string, std::chrono::steady_clock::time_point> renewed_;  // the last time
};

}  // namespace osb::server
