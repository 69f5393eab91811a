#pragma once

#include <linux/filter.h>
#include <span>

#include "base/error.h"

namespace osb::sandboxd {

struct ProfileOptions {
  // Lets programs inside make user namespaces and, in them, all other namespaces and mounts (bubblewrap, Chromium's
  // sandbox, rootless containers). More of the kernel can be reached that way, so it is off unless asked for.
  bool nested_user_namespaces = false;
};

// The system calls a sandbox may make (docs/design/0003-seccomp.md says why). Compiled on first use, then cached for
// the life of the process; safe from any thread. Install it with kernel::install_seccomp as the last thing before exec:
// nothing of the launch itself (mount, pivot_root, setns) is allowed by it.
Result<std::span<const sock_filter>> seccomp_program(const ProfileOptions& options);

}  // namespace osb::sandboxd
