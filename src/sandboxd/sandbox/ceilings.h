#pragma once

#include <string>

#include "api/native.h"
#include "base/error.h"
#include "config/ceilings.h"
#include "kernel/limited_cgroup.h"

namespace osb::sandboxd {

using config::Ceilings;

// The size of this host. `state_directory` need not exist. Without network slots: a create that finds no free one says
// so better.
config::MachineSize measure_machine(const std::string& state_directory);

// Code::InvalidRequest names a limit of the request above its maximum, and the maximum. Gives the defaults to a request
// that has no limit of memory or CPU.
Result<void> apply_ceilings(api::native::Limits& wanted, const Ceilings& ceilings);

// The limits of the parent cgroup, which hold for all sandboxes together.
kernel::Limits parent_limits(const Ceilings& ceilings);

}  // namespace osb::sandboxd
