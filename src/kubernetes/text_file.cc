#include "kubernetes/text_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "base/unique_fd.h"

namespace osb::kubernetes {
namespace {

constexpr std::size_t kMaxCredential = 1 << 20;

Failure cannot_read(const std::filesystem::path& path, int error) {
  return Failure(Error(error == ENOENT ? Code::NotFound : Code::Internal,
                       "read " + path.string() + ": " + std::generic_category().message(error), error));
}

}  // namespace

Result<std::string> read_text_file(const std::filesystem::path& path, std::size_t limit) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return cannot_read(path, errno);
  std::string out;
  char buffer[8192];
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot_read(path, errno);
    if (got == 0) break;
    out.append(buffer, static_cast<std::size_t>(got));
    if (out.size() > limit) return cannot_read(path, EFBIG);
  }
  out.erase(out.find_last_not_of(" \t\r\n") + 1);
  return out;
}

std::optional<WatchedFile::Stamp> WatchedFile::stamp() const {
  struct stat now{};
  if (::stat(path_.c_str(), &now) != 0) return std::nullopt;
  return Stamp{now.st_dev, now.st_ino, static_cast<std::uint64_t>(now.st_size), now.st_mtim.tv_sec,
               now.st_mtim.tv_nsec};
}

bool WatchedFile::changed() const { return !seen_ || stamp() != seen_; }

Result<std::string> WatchedFile::read() {
  // Taken before the read: a change in between is seen by the next call.
  const auto before = stamp();
  auto content = read_text_file(path_, kMaxCredential);
  if (!content) return content;
  if (content->empty()) return fail(Code::Unavailable, path_.string() + " is empty");
  seen_ = before;
  return content;
}

}  // namespace osb::kubernetes
