#include "execd/run/small_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/syscall.h"

namespace osb::execd {

std::optional<std::string> read_small_file(const std::string& path, std::size_t limit) {
  const auto file = sys::open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK);
  struct stat info{};
  if (!file || ::fstat(file->get(), &info) < 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  std::string text;
  std::array<char, 8 * 1024> buffer;
  while (text.size() < limit) {
    const ssize_t n = ::read(file->get(), buffer.data(), std::min(buffer.size(), limit - text.size()));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    if (n == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return text;
}

}  // namespace osb::execd
