#pragma once

#include <string>
#include <unordered_set>

#include "server/service/removals.h"
#include "server/service/sandbox_states.h"

namespace osb::server {

// Ends sandboxes at their deadline, and takes out those that ended by themselves some time ago. One timer; the store
// decides who wins a race with renew(). Its arguments outlive it.
class Deadlines {
 public:
  Deadlines(const ServiceContext& context, DeadlineQueue& queue, SandboxStates& states, Removals& removals)
      : context_(context), queue_(queue), states_(states), removals_(removals) {}

  net::awaitable<void> run();  // until cancelled
  // Takes out everything that is due, as of the moment that is returned.
  Timestamp check();
  net::awaitable<Result<Timestamp>> renew(std::string id, Scope scope, Timestamp until);

 private:
  net::awaitable<void> expire(std::string id);
  net::awaitable<void> retire(std::string id);

  const ServiceContext& context_;
  DeadlineQueue& queue_;
  SandboxStates& states_;
  Removals& removals_;
  std::unordered_set<std::string> leaving_;  // an expiry or retirement is under way
};

}  // namespace osb::server
