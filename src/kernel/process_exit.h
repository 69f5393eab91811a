#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>

#include "base/error.h"
#include "base/unique_fd.h"
#include "sys/spawn.h"

namespace osb::kernel {

// Identifies a process across our restarts and reboots of the host: the kernel reuses a pid for another process.
struct ProcessIdentity {
  std::string boot_id;            // of the kernel that runs it
  pid_t pid = 0;                  // in our pid namespace
  std::uint64_t start_ticks = 0;  // since boot, field 22 of /proc/PID/stat

  bool operator==(const ProcessIdentity&) const = default;
};

// Code::NotFound when there is no such process.
Result<ProcessIdentity> identify(pid_t pid);

// A pidfd of exactly this process. Code::NotFound when it has ended, has become a zombie, or the host was restarted.
Result<UniqueFd> open_same(const ProcessIdentity& identity);

// How a process that need not be our child ended. The kernel tells when its parent has reaped it (a pidfd is readable
// before that), so this waits for it until the time is up. Nothing while it runs or is a zombie, and nothing where the
// kernel cannot tell: it needs Linux 6.15, and a pidfd that was opened before the process was reaped.
std::optional<sys::ExitStatus> exit_of(int pidfd, std::chrono::milliseconds limit = std::chrono::milliseconds(0));

}  // namespace osb::kernel
