#include "sys/install_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "sys/staged_file.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::sys {
namespace {

constexpr std::size_t kMostBytes = 256 << 20;

}  // namespace

Result<void> install_file(const std::string& from, const std::string& to, const std::string& name) {
  const auto directory = open_at(AT_FDCWD, to, O_RDONLY | O_DIRECTORY);
  if (!directory) return Failure(directory.error());
  const auto bytes = read_text(from, kMostBytes);
  if (!bytes) return Failure(bytes.error());
  auto staged = StagedFile::create(directory->get());
  if (!staged) return Failure(staged.error());
  if (auto written = staged->write(*bytes); !written) return written;
  if (::fchmod(staged->fd(), 0755) < 0) return from_errno("chmod " + name, errno);
  return staged->place(directory->get(), name);
}

}  // namespace osb::sys
