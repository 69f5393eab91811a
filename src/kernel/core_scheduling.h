#pragma once

namespace osb::kernel {

// Core scheduling (Linux 5.14 with CONFIG_SCHED_CORE): threads run beside each other on one core only if they have the
// same cookie. Numbers of prctl, which the headers of older systems lack.
inline constexpr int kSchedCore = 62, kSchedCoreGet = 0, kSchedCoreCreate = 1;

// Whether this kernel has it. A machine without SMT counts: there is nothing to share.
bool has_core_scheduling();

}  // namespace osb::kernel
