#pragma once

#include <chrono>
#include <sys/types.h>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::sys {

// A handle of the process that has this pid now; it never comes to mean another one. ESRCH when there is none.
Result<UniqueFd> open_pidfd(pid_t pid);

// ESRCH (Code::NotFound) when the process has ended.
Result<void> send_signal(int pidfd, int signal);

// Waits until the process has ended (it may be a zombie); false when the time is up first.
bool wait_ended(int pidfd, std::chrono::milliseconds limit);

}  // namespace osb::sys
