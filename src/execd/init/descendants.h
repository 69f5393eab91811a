#pragma once

#include <chrono>

#include "base/error.h"

namespace osb::execd {

// All descendants of this process, which is PID 1 or a subreaper: a descendant with a new session, a new group or a
// lost parent stays below us. PID 1 means all processes of its namespace and needs no /proc.

// To each of them once.
void signal_descendants(int signal);

// Ends them all; also those that fork meanwhile. Blocks, usually for milliseconds, at most for about `limit`
// (Code::Timeout): call it where blocking is allowed. Zombies are left to the reaper.
Result<void> kill_descendants(std::chrono::milliseconds limit);

}  // namespace osb::execd
