#include "base/rotating_file.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace osb {

void write_line(int fd, std::string_view line) {
  while (!line.empty()) {
    const ssize_t n = ::write(fd, line.data(), line.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // a full disk or a closed pipe must not stop the program; there is nowhere to say so
    line.remove_prefix(static_cast<std::size_t>(n));
  }
}

Result<void> RotatingFile::open() {
  const int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (fd < 0) {
    const int e = errno;
    return Failure(Error(Code::Internal, "open log " + path_ + ": " + std::generic_category().message(e), e));
  }
  fd_.reset(fd);
  struct stat info{};
  size_ = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? static_cast<std::uint64_t>(info.st_size) : 0;
  rotates_ = S_ISREG(info.st_mode);  // /dev/null, a pipe or a terminal stays what it is
  return {};
}

void RotatingFile::write(std::string_view line) {
  if (rotates_ && size_ > 0 && size_ + line.size() > rotate_bytes_) rotate();
  write_line(fd_.get(), line);
  size_ += line.size();
}

void RotatingFile::rotate() {
  const auto name = [this](int i) { return i == 0 ? path_ : path_ + "." + std::to_string(i); };
  for (int i = keep_files_ - 1; i > 0; --i) ::rename(name(i - 1).c_str(), name(i).c_str());
  if (keep_files_ <= 1) ::unlink(path_.c_str());
  if (!open()) size_ = 0;  // goes on in the old file, and tries again later
}

}  // namespace osb
