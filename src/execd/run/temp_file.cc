#include "execd/run/temp_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "sys/syscall.h"

namespace osb::execd {

Result<UniqueFd> make_unnamed_file(const std::string& directory) {
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
