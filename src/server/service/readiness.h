#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "server/service/backend_presence.h"
#include "server/service/service_context.h"

namespace osb::server {

// Whether creates can be served: the backend is heard, and the store takes a small write. Its arguments outlive it.
class Readiness {
 public:
  Readiness(const ServiceContext& context, const BackendPresence& presence) : context_(context), presence_(presence) {}

  // Tries the store at most twice a second, however often it is asked. GENERAL::NOT_READY.
  net::awaitable<Result<void>> check();

 private:
  const ServiceContext& context_;
  const BackendPresence& presence_;
  std::optional<std::chrono::steady_clock::time_point> probed_at_;
  std::string probe_error_;  // of the last probe; "" is none
};

}  // namespace osb::server
