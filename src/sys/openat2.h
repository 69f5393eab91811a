#pragma once

#include <cstdint>
#include <linux/openat2.h>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"
#include "sys/clone.h"

namespace osb::sys {

// openat2(2) with RESOLVE_* rules; the only caller of that system call. O_CLOEXEC is always set.
//
// With RESOLVE_BENEATH or RESOLVE_IN_ROOT the kernel answers EAGAIN when any rename or mount on the host happens while
// it follows "..", even one that has nothing to do with the path. So the call is repeated, after EINTR too. A busy host
// needs one or two attempts; a sandbox that renames in a loop costs a few thousand. After kOpenAttempts the call fails
// with EAGAIN, so a sandbox cannot hold the calling thread forever.
inline constexpr int kOpenAttempts = 100'000;

// Returns a descriptor, or -1 with errno set. Async-signal-safe: children that share our memory call it before exec.
OSB_IN_CHILD int try_openat2(int directory, const char* path, int flags, std::uint64_t resolve);

// The error names the path. Code::Unavailable after kOpenAttempts.
Result<UniqueFd> openat2(int directory, const std::string& path, int flags, std::uint64_t resolve);

}  // namespace osb::sys
