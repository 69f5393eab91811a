#include "execd/init/inherited_fd.h"

#include <linux/close_range.h>
#include <optional>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/parse_number.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

std::optional<int> inherited_number(std::string_view path) {
  constexpr std::string_view kPrefix = "/proc/self/fd/";
  if (!path.starts_with(kPrefix)) return std::nullopt;
  path.remove_prefix(kPrefix.size());
  const auto fd = parse_number<int>(path);
  return fd && *fd >= 0 ? fd : std::nullopt;
}

}  // namespace

void keep_inherited_fds_from_children() { ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC); }

Result<UniqueFd> open_given(const std::string& path, int flags, mode_t mode) {
  const auto number = inherited_number(path);
  if (!number) return sys::open_at(AT_FDCWD, path, flags, mode);
  UniqueFd fd(::fcntl(*number, F_DUPFD_CLOEXEC, 3));
  if (!fd) return sys::from_errno("open " + path, errno);
  struct stat st;
  if (::fstat(fd.get(), &st) < 0) return sys::from_errno("open " + path, errno);
  if ((flags & O_DIRECTORY) != 0 && !S_ISDIR(st.st_mode)) return sys::from_errno("open " + path, ENOTDIR);
  const int mode_of_fd = ::fcntl(fd.get(), F_GETFL);
  const bool writable = (mode_of_fd & O_PATH) == 0 && (mode_of_fd & O_ACCMODE) != O_RDONLY;
  if ((flags & O_ACCMODE) != O_RDONLY && !writable) return sys::from_errno("open " + path + " for writing", EACCES);
  return fd;
}

}  // namespace osb::execd
