#include "kernel/reflink.h"

#include <cerrno>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "sys/syscall.h"

namespace osb::kernel {

Result<bool> clone_file(int from, int to) {
  for (;;) {
    if (::ioctl(to, FICLONE, from) == 0) return true;
    switch (errno) {
      case EINTR:
        continue;
      case EOPNOTSUPP:
      case ENOTTY:
      case ENOSYS:
      case EXDEV:
      case EINVAL:   // btrfs: only one of the two has checksums
      case ETXTBSY:  // a swap file
        return false;
      default:
        return sys::from_errno("share blocks (FICLONE)", errno);
    }
  }
}

Result<bool> can_clone_files(int directory) {
  const auto from = sys::open_at(directory, ".", O_TMPFILE | O_RDWR, 0600);
  if (!from && from.error().sys_errno == EOPNOTSUPP) return false;
  if (!from) return Failure(from.error());
  const auto to = sys::open_at(directory, ".", O_TMPFILE | O_RDWR, 0600);
  if (!to) return Failure(to.error());
  if (::pwrite(from->get(), "x", 1, 0) != 1) return sys::from_errno("write a file without a name", errno);
  return clone_file(from->get(), to->get());
}

}  // namespace osb::kernel
