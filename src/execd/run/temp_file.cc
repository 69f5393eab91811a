#include "execd/run/temp_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/syscall.h"

namespace osb::execd {
namespace {

std::string private_directory(const std::string& parent) {
  std::string path = parent + "/opensandbox-execd";
  ::mkdir(path.c_str(), 0700);
  struct stat info{};
  const bool ours = ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
                    (info.st_mode & 077) == 0;
  return ours ? path : parent;
}

}  // namespace

Result<UniqueFd> make_unnamed_file(const std::string& temp) {
  const std::string directory = private_directory(temp);
  auto file = sys::open_at(AT_FDCWD, directory, O_TMPFILE | O_RDWR | O_EXCL, 0600);
  if (file) return file;
  // Some file systems (older overlays, NFS) have no O_TMPFILE.
  std::string name = directory + "/execd-XXXXXX";
  UniqueFd named(::mkostemp(name.data(), O_CLOEXEC));
  if (!named) return sys::from_errno("create a file in " + directory, errno);
  ::unlink(name.c_str());
  return named;
}

}  // namespace osb::execd
