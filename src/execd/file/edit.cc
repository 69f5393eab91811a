#include "execd/file/edit.h"

#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <functional>
#include <optional>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "execd/file/content/file_replacement.h"
#include "execd/path/path.h"
#include "sys/staged_file.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

constexpr std::size_t kPiece = 1024 * 1024;

int rename_without_replacing(const char* source, const char* destination) {
  const long done = ::syscall(SYS_renameat2, AT_FDCWD, source, AT_FDCWD, destination, RENAME_NOREPLACE);
  if (done == 0 || (errno != EINVAL && errno != ENOSYS)) return static_cast<int>(done);
  // File systems without the flag: look first.
  struct stat st;
  if (::lstat(destination, &st) == 0) {
    errno = EEXIST;
    return -1;
  }
  return ::rename(source, destination);
}

Result<std::size_t> read_piece(int fd, std::string& into, std::size_t size) {
  const std::size_t before = into.size();
  ssize_t got = 0;
  int error = 0;
  into.resize_and_overwrite(before + size, [&](char* data, std::size_t) {
    do {
      got = ::read(fd, data + before, size);
    } while (got < 0 && errno == EINTR);
    error = errno;
    return before + (got < 0 ? 0 : static_cast<std::size_t>(got));
  });
  if (got < 0) return sys::from_errno("read", error);
  return static_cast<std::size_t>(got);
}

}  // namespace

Result<void> remove_file(const std::string& path) {
  struct stat st;
  if (::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) return sys::from_errno("remove " + path, EISDIR);
  if (::unlink(path.c_str()) < 0 && errno != ENOENT && errno != ENOTDIR)
    return sys::from_errno("remove " + path, errno);
  return {};
}

Result<void> move_path(const std::string& source, const std::string& destination) {
  struct stat st;
  if (::lstat(source.c_str(), &st) < 0) return sys::from_errno("move " + source, errno);
  if (auto ok = sys::make_directories(std::string(parent_of(destination)), 0755); !ok) {
    // Only a missing source is "not found".
    Error error = ok.error();
    error.code = Code::Internal;
    return Failure(std::move(error));
  }
  if (rename_without_replacing(source.c_str(), destination.c_str()) < 0) {
    return sys::from_errno("move " + source + " to " + destination, errno);
  }
  return {};
}

Result<void> make_directory(const std::string& path, const Permission& permission) {
  struct stat st;
  if (::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) return {};
  if (auto ok = sys::make_directories(path, 0777); !ok) return ok;
  return apply_permission(path, permission);
}

Result<std::uint64_t> replace_in_file(const std::string& path, std::string_view wanted, std::string_view replacement) {
  auto file = sys::open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK);
  if (!file) return with_context("replace", file.error());
  struct stat st;
  if (::fstat(file->get(), &st) < 0) return sys::from_errno("stat " + path, errno);
  if (!S_ISREG(st.st_mode)) return fail(Code::Internal, "replace " + path + ": not a regular file");

  std::uint64_t count = 0;
  std::optional<FileReplacement> fresh;  // made at the first occurrence
  std::uint64_t skipped = 0;             // bytes before it, which have been looked at only
  std::string window, out;
  const std::boyer_moore_horspool_searcher searcher(wanted.begin(), wanted.end());
  const auto flush = [&]() -> Result<void> {
    auto ok = fresh->write(out);
    out.clear();
    return ok;
  };
  for (bool end = false; !end;) {
    auto got = read_piece(file->get(), window, kPiece);
    if (!got) return with_context("replace " + path, got.error());
    end = *got == 0;
    std::string_view rest = window;
    for (;;) {
      const auto found = std::search(rest.begin(), rest.end(), searcher);
      if (found == rest.end()) break;
      if (!fresh) {
        auto begun = FileReplacement::begin(path);
        if (!begun) return Failure(begun.error());
        fresh.emplace(std::move(*begun));
        if (auto ok = copy_contents(file->get(), fresh->fd(), skipped); !ok) {
          return with_context("replace " + path, ok.error());
        }
        ::lseek(fresh->fd(), static_cast<off_t>(skipped), SEEK_SET);
      }
      const auto before = static_cast<std::size_t>(found - rest.begin());
      out.append(rest.substr(0, before)).append(replacement);
      rest.remove_prefix(before + wanted.size());
      ++count;
      if (out.size() >= kPiece) {
        if (auto ok = flush(); !ok) return with_context("replace " + path, ok.error());
      }
    }
    // An occurrence may begin in the last bytes of this piece.
    const std::size_t keep = end ? 0 : std::min(rest.size(), wanted.size() - 1);
    const std::string_view settled = rest.substr(0, rest.size() - keep);
    if (fresh) {
      out += settled;
      if (auto ok = flush(); !ok) return with_context("replace " + path, ok.error());
    } else {
      skipped += settled.size();
    }
    window.erase(0, window.size() - keep);
  }
  if (!fresh) {
    if (::utimensat(AT_FDCWD, path.c_str(), nullptr, 0) < 0) return sys::from_errno("replace " + path, errno);
    return 0;
  }
  if (auto ok = fresh->write_out(); !ok) return Failure(ok.error());
  const auto directory = fresh->place({});
  if (!directory) return Failure(directory.error());
  if (auto ok = fresh->sync(); !ok) return Failure(ok.error());
  if (auto ok = sync_directory(*directory); !ok) return Failure(ok.error());
  return count;
}

}  // namespace osb::execd
