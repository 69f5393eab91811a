#pragma once

#include "async/blocking_pool.h"
#include "async/task_group.h"
#include "base/stopwatch.h"
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

}  // namespace osb::sandboxd
