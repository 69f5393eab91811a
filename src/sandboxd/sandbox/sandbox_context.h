#pragma once

#include "async/blocking_pool.h"
#include "async/task_group.h"
#include "sandboxd/sandbox/sandbox_builder.h"
#include "sandboxd/sandbox/sandbox_table.h"

namespace osb::sandboxd {

// Shared by the parts of HostSandboxes. All of it outlives them; they live on one loop.
struct SandboxContext {
  net::any_io_executor executor;
  BlockingPool& pool;
  SandboxBuilder& builder;
  SandboxTable& table;
  TaskGroup& tasks;

  const SandboxConfig& config() const { return builder.config(); }
  const Clock& clock() const { return builder.parts().clock; }
};

// Milliseconds since it was made, for logs.
class Stopwatch {
 public:
  explicit Stopwatch(const Clock& clock) : clock_(clock), start_(clock.steady_now()) {}
  double ms() const { return std::chrono::duration<double, std::milli>(clock_.steady_now() - start_).count(); }

 private:
  const Clock& clock_;
  const std::chrono::steady_clock::time_point start_;
};

}  // namespace osb::sandboxd
