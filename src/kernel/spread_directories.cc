#include "kernel/spread_directories.h"

#include <cerrno>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include "sys/syscall.h"

namespace osb::kernel {

Result<void> spread_subdirectories(const std::string& directory) {
  auto fd = sys::open_at(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
  if (!fd) return Failure(fd.error());
  int flags = 0;
  if (::ioctl(fd->get(), FS_IOC_GETFLAGS, &flags) < 0) {
    return errno == ENOTTY || errno == EOPNOTSUPP ? Result<void>() : sys::from_errno("flags of " + directory, errno);
  }
  flags |= FS_TOPDIR_FL;
  if (::ioctl(fd->get(), FS_IOC_SETFLAGS, &flags) < 0 && errno != ENOTTY && errno != EOPNOTSUPP) {
    return sys::from_errno("set flags of " + directory, errno);
  }
  return {};
}

}  // namespace osb::kernel
