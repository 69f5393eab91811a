#pragma once

#include <string>

#include "server/service/sandbox_states.h"

namespace osb::server {

// Pauses and resumes sandboxes. Its arguments outlive it.
class Pauses {
 public:
  Pauses(const ServiceContext& context, SandboxStates& states) : context_(context), states_(states) {}

  net::awaitable<Result<void>> pause(std::string id, Scope scope) { return set(std::move(id), std::move(scope), true); }
  net::awaitable<Result<void>> resume(std::string id, Scope scope) {
    return set(std::move(id), std::move(scope), false);
  }

 private:
  net::awaitable<Result<void>> set(std::string id, Scope scope, bool paused);

  const ServiceContext& context_;
  SandboxStates& states_;
};

}  // namespace osb::server
