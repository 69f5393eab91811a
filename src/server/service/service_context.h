#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/lifecycle_error.h"
#include "async/task_group.h"
#include "base/clock.h"
#include "runtime/backend.h"
#include "server/metrics/create_stage.h"
#include "server/policies/policy_library.h"
#include "server/store/store.h"
#include "server/template/publish_places.h"

namespace osb::server {

struct ServiceOptions {
  std::optional<std::chrono::seconds> max_timeout;
  std::vector<std::string> allowed_host_paths;
  int max_sandboxes = 0;  // 0 is no limit, -1 the backend's number
  int max_concurrent_creates = 100;
  int max_queued_creates = 1000;
  std::chrono::seconds keep_ended{3600};  // how long a sandbox that has ended by itself stays visible
  bool renew_on_access = false;
  std::chrono::seconds min_renew_interval{60};
  std::chrono::seconds template_build_limit{1800};         // until a template's sandbox is warm
  PublishPlaces publish;                                   // of templates
  CreateStageObserver on_create_stage;                     // for metrics; may be empty
  const PolicyLibrary* policies = &PolicyLibrary::none();  // for creates; outlives the service
};

// The server's time, by the wall clock and by the clock that cannot be set (see Moment).
class ServerTime {
 public:
  explicit ServerTime(const Clock& clock) : clock_(clock) {}

  Timestamp now() const { return std::chrono::floor<std::chrono::microseconds>(clock_.now()); }
  std::chrono::steady_clock::time_point steady() const { return clock_.steady_now(); }
  // The wall clock as it was at the start, moved on by the clock that cannot be set.
  Timestamp running() const {
    return started_ + std::chrono::floor<std::chrono::microseconds>(clock_.steady_now() - steady_start_);
  }
  Moment moment() const {
    const Timestamp wall = now();
    return {wall, wall - running()};
  }

 private:
  const Clock& clock_;
  const Timestamp started_ = now();  // the two clocks in this order: running() may be behind, never ahead
  const std::chrono::steady_clock::time_point steady_start_ = clock_.steady_now();
};

// Shared by the parts of the service, which owns it. Everything that it refers to outlives the parts.
struct ServiceContext {
  net::any_io_executor executor;
  Store& store;
  runtime::Backend& backend;
  const Clock& clock;
  ServiceOptions options;
  TaskGroup& tasks;
  ServerTime time{clock};
  bool closing = false;

  runtime::Lifecycle& lifecycle() const { return backend.lifecycle(); }
  std::string reason(std::string_view suffix) const {  // "NATIVE::" + suffix
    return api::backend_reason(backend.capabilities().backend, suffix);
  }
};

}  // namespace osb::server
