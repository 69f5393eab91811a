#include "execd/code/memory_file.h"

#include <cerrno>
#include <sys/mman.h>

#include "sys/syscall.h"
#include "sys/write_all.h"

namespace osb::execd {

Result<UniqueFd> memory_file(const char* name, std::string_view content) {
  UniqueFd file(::memfd_create(name, MFD_CLOEXEC));
  if (!file) return sys::from_errno("memfd_create", errno);
  // The position stays at 0, where the child begins to read.
  if (auto written = sys::write_all_at(file.get(), 0, content, "a memory file"); !written) {
    return Failure(written.error());
  }
  return file;
}

}  // namespace osb::execd
