#include "sys/pty.h"

#include <sys/ioctl.h>

#include "sys/syscall.h"

namespace osb::sys {

Result<Pty> open_pty(WindowSize size) {
  auto master = open_at(AT_FDCWD, "/dev/ptmx", O_RDWR | O_NOCTTY);
  if (!master) return Failure(master.error());
  int locked = 0;
  if (::ioctl(master->get(), TIOCSPTLCK, &locked) < 0) return from_errno("unlock pseudo-terminal", errno);
  UniqueFd terminal(::ioctl(master->get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!terminal) return from_errno("open pseudo-terminal peer", errno);
  if (auto set = set_window_size(master->get(), size); !set) return Failure(set.error());
  return Pty{std::move(*master), std::move(terminal)};
}

Result<void> set_window_size(int fd, WindowSize size) {
  winsize w{};
  w.ws_col = size.columns;
  w.ws_row = size.rows;
  if (::ioctl(fd, TIOCSWINSZ, &w) < 0) return from_errno("set window size", errno);
  return {};
}

Result<WindowSize> window_size(int fd) {
  winsize w{};
  if (::ioctl(fd, TIOCGWINSZ, &w) < 0) return from_errno("get window size", errno);
  return WindowSize{w.ws_col, w.ws_row};
}

}  // namespace osb::sys
