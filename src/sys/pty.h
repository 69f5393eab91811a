#pragma once

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::sys {

struct WindowSize {
  unsigned short columns = 80;
  unsigned short rows = 24;
};

// Both ends close-on-exec, neither a controlling terminal (see SpawnPlan::controlling_tty). Close `terminal` here once
// a child has it: the master reports the end (EIO) only when no process holds the other side.
struct Pty {
  UniqueFd master;
  UniqueFd terminal;
};

// From the devpts instance at /dev, by ioctl instead of grantpt() and ptsname(): no helper program, no group lookup,
// and it works when /dev/pts of this mount namespace is another instance or is missing.
Result<Pty> open_pty(WindowSize size = {});

// The foreground process group of the terminal gets SIGWINCH if the size differs.
Result<void> set_window_size(int fd, WindowSize size);
Result<WindowSize> window_size(int fd);

}  // namespace osb::sys
