#include "sys/write_all.h"

#include <unistd.h>

#include "sys/syscall.h"

namespace osb::sys {
namespace {

template <typename Write>
Result<void> repeat(std::string_view bytes, const std::string& what, Write write) {
  while (!bytes.empty()) {
    const ssize_t n = write(bytes);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      return from_errno("write " + what, errno);
    }
  }
  return {};
}

}  // namespace

Result<void> write_all(int fd, std::string_view bytes, const std::string& what) {
  return repeat(bytes, what, [fd](std::string_view left) { return ::write(fd, left.data(), left.size()); });
}

Result<void> write_all_at(int fd, std::uint64_t offset, std::string_view bytes, const std::string& what) {
  const char* const end = bytes.data() + bytes.size();
  const auto last = static_cast<off_t>(offset + bytes.size());
  return repeat(bytes, what, [&](std::string_view left) {
    return ::pwrite(fd, left.data(), left.size(), last - (end - left.data()));
  });
}

}  // namespace osb::sys
