#include "client/local_file.h"

#include <algorithm>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "client/errors.h"
#include "sys/syscall.h"
#include "sys/write_all.h"

namespace opensandbox {
namespace {

constexpr std::size_t kBlock = 1024 * 1024;

}  // namespace

Failure from_local(const osb::Error& error) { return local_error(error.message); }

Failure from_errno(const std::string& what, int error) { return from_local(osb::sys::from_errno(what, error).error()); }

Result<void> write_fd(int fd, std::string_view bytes, const std::string& what) {
  auto written = osb::sys::write_all(fd, bytes, what);
  return written ? Result<void>() : from_local(written.error());
}

Result<std::optional<std::uint64_t>> length_of(int fd, const std::string& what) {
  struct stat st{};
  if (::fstat(fd, &st) < 0) return from_errno("fstat " + what, errno);
  if (S_ISDIR(st.st_mode)) return local_error(what + ": is a directory");
  if (!S_ISREG(st.st_mode)) return std::optional<std::uint64_t>();
  const off_t at = ::lseek(fd, 0, SEEK_CUR);
  if (at < 0) return from_errno("lseek " + what, errno);
  return static_cast<std::uint64_t>(std::max<off_t>(st.st_size - at, 0));
}

DescriptorSource::DescriptorSource(int fd, std::string what, std::optional<std::uint64_t> limit,
                                   const TransferProgress& progress)
    : fd_(fd),
      what_(std::move(what)),
      limit_(limit),
      progress_(progress),
      buffer_(kBlock, '\0'),
      other_(kBlock, '\0') {}

Result<std::string_view> DescriptorSource::next() {
  if (progress_ && done_ > 0) progress_(done_, limit_);
  std::size_t want = buffer_.size();
  if (limit_) want = static_cast<std::size_t>(std::min<std::uint64_t>(want, *limit_ - done_));
  if (want == 0) return std::string_view();
  std::swap(buffer_, other_);
  for (;;) {
    const ssize_t n = ::read(fd_, buffer_.data(), want);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return from_errno("read " + what_, errno);
    done_ += static_cast<std::uint64_t>(n);
    return std::string_view(buffer_.data(), static_cast<std::size_t>(n));
  }
}

}  // namespace opensandbox
