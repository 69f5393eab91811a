#include "sandboxd/sandbox/file_tail.h"

#include <algorithm>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/syscall.h"

namespace osb::sandboxd {

Result<UniqueFd> open_foreign_file(const std::string& path, int access) {
  auto file = sys::open_at(AT_FDCWD, path, access | O_NOFOLLOW | O_NONBLOCK);
  if (!file) return file;
  struct stat info{};
  if (::fstat(file->get(), &info) < 0) return sys::from_errno("stat " + path, errno);
  if (!S_ISREG(info.st_mode)) return fail(Code::Internal, "open " + path + ": not a file");
  return file;
}

Result<std::string> read_tail(const std::string& path, std::size_t limit) {
  auto file = open_foreign_file(path, O_RDONLY);
  if (!file) return Failure(file.error());
  struct stat info{};
  if (::fstat(file->get(), &info) < 0) return sys::from_errno("stat " + path, errno);
  const off_t begin = std::max<off_t>(0, info.st_size - static_cast<off_t>(limit));
  std::string text(static_cast<std::size_t>(info.st_size - begin), '\0');
  const ssize_t size = ::pread(file->get(), text.data(), text.size(), begin);
  if (size < 0) return sys::from_errno("read " + path, errno);
  text.resize(static_cast<std::size_t>(size));
  return text;
}

Result<void> free_all_but_tail(const std::string& path, std::uint64_t keep) {
  auto file = open_foreign_file(path, O_WRONLY);
  if (!file) return Failure(file.error());
  struct stat info{};
  if (::fstat(file->get(), &info) < 0) return sys::from_errno("stat " + path, errno);
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (static_cast<std::uint64_t>(info.st_blocks) * 512 <= 2 * keep || size <= keep) return {};
  // Whole blocks: readers tell by the hole what is gone.
  const auto block = static_cast<std::uint64_t>(std::max<blksize_t>(info.st_blksize, 1));
  const auto end = static_cast<off_t>((size - keep) / block * block);
  if (end == 0) return {};
  if (::fallocate(file->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, end) < 0) {
    return sys::from_errno("free the begin of " + path, errno);
  }
  return {};
}

}  // namespace osb::sandboxd
