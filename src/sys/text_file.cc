#include "sys/text_file.h"

#include <unistd.h>

#include "sys/syscall.h"

namespace osb::sys {

Result<std::string> read_text(int fd, const std::string& name, std::size_t limit) {
  std::string out;
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::pread(fd, buffer, sizeof buffer, static_cast<off_t>(out.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return from_errno("read " + name, errno);
    if (got == 0) return out;
    out.append(buffer, static_cast<std::size_t>(got));
    if (out.size() > limit) return fail(Code::TooLarge, "read " + name + ": larger than " + std::to_string(limit));
  }
}

Result<std::string> read_text(const std::string& path, std::size_t limit) {
  auto fd = open_at(AT_FDCWD, path, O_RDONLY);
  if (!fd) return Failure(fd.error());
  std::string out;
  char buffer[4096];  // most are smaller; sizes from stat() are 0 in /proc
  for (;;) {
    const ssize_t got = ::read(fd->get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return from_errno("read " + path, errno);
    if (got == 0) return out;
    out.append(buffer, static_cast<std::size_t>(got));
    if (out.size() > limit) return fail(Code::TooLarge, "read " + path + ": larger than " + std::to_string(limit));
  }
}

Result<void> write_text(const std::string& path, std::string_view text) {
  auto fd = open_at(AT_FDCWD, path, O_WRONLY);
  if (!fd) return Failure(fd.error());
  ssize_t sent;
  do sent = ::write(fd->get(), text.data(), text.size());
  while (sent < 0 && errno == EINTR);
  if (sent < 0) return from_errno("write " + path, errno);
  if (static_cast<std::size_t>(sent) != text.size()) return fail(Code::Internal, "write " + path + ": cut short");
  return {};
}

}  // namespace osb::sys
