#include "execd/daemon/install.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "sys/staged_file.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::execd {
namespace {

constexpr std::size_t kMostBytes = 256 << 20;

Result<void> copy(const std::string& from, int directory, const std::string& name) {
  const auto bytes = sys::read_text(from, kMostBytes);
  if (!bytes) return Failure(bytes.error());
  auto staged = sys::StagedFile::create(directory);
  if (!staged) return Failure(staged.error());
  if (auto written = staged->write(*bytes); !written) return written;
  if (::fchmod(staged->fd(), 0755) < 0) return sys::from_errno("chmod " + name, errno);
  return staged->place(directory, name);
}

}  // namespace

Result<void> install(const std::string& program, const std::string& to) {
  const auto directory = sys::open_at(AT_FDCWD, to, O_RDONLY | O_DIRECTORY);
  if (!directory) return Failure(directory.error());
  if (auto copied = copy(program, directory->get(), "execd"); !copied) return copied;
  const std::string beside = program.substr(0, program.rfind('/') + 1);
  return copy(beside + "bootstrap.sh", directory->get(), "bootstrap.sh");
}

}  // namespace osb::execd
