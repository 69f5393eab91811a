#include "sys/remove_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <vector>

#include "sys/syscall.h"
#include "sys/walk.h"

namespace osb::sys {
namespace {

constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK;

// One directory on the way down: its files are gone already, these directories are left.
struct Level {
  std::vector<std::string> directories;
  dev_t device = 0;
  ino_t inode = 0;
};

// Removes everything but directories from `fd` and lists those.
Result<Level> sweep(int fd) {
  auto names = DirectoryNames::read(fd);
  if (!names) return Failure(names.error());
  Level level;
  for (std::size_t i = 0; i < names->size(); ++i) {
    const std::string_view name = names->text(i);
    if ((*names)[i].type != DT_DIR) {
      if (::unlinkat(fd, name.data(), 0) == 0 || errno == ENOENT) continue;
      // Linux says EISDIR; POSIX lets it be EPERM.
      if (errno != EISDIR) return from_errno("remove " + std::string(name), errno);
    }
    level.directories.emplace_back(name);
  }
  struct stat st;
  if (::fstat(fd, &st) < 0) return from_errno("stat", errno);
  level.device = st.st_dev;
  level.inode = st.st_ino;
  return level;
}

Result<void> empty_directory(UniqueFd current) {
  std::vector<Level> levels;
  auto first = sweep(current.get());
  if (!first) return Failure(first.error());
  levels.push_back(std::move(*first));
  for (;;) {
    Level& level = levels.back();
    if (!level.directories.empty()) {
      const std::string& name = level.directories.back();
      if (::unlinkat(current.get(), name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) {
        level.directories.pop_back();
        continue;
      }
      if (errno != ENOTEMPTY && errno != EEXIST) return from_errno("remove " + name, errno);
      auto child = open_at(current.get(), name, kDirectoryFlags);
      if (!child) return Failure(child.error());
      auto swept = sweep(child->get());
      if (!swept) return with_context(name, swept.error());
      current = std::move(*child);
      levels.push_back(std::move(*swept));
      continue;
    }
    levels.pop_back();
    if (levels.empty()) return {};
    auto parent = open_at(current.get(), "..", kDirectoryFlags);
    if (!parent) return Failure(parent.error());
    struct stat st;
    if (::fstat(parent->get(), &st) < 0) return from_errno("stat", errno);
    // Another process moved the directory we were in: ".." may now be anywhere.
    if (st.st_dev != levels.back().device || st.st_ino != levels.back().inode) {
      return fail(Code::Internal, "directory was moved while it was removed");
    }
    current = std::move(*parent);
  }
}

}  // namespace

Result<void> remove_tree(int parent, const std::string& path) {
  if (path == "/") return fail(Code::Internal, "remove /: refused");
  for (int attempt = 0;; ++attempt) {
    if (::unlinkat(parent, path.c_str(), 0) == 0 || errno == ENOENT || errno == ENOTDIR) return {};
    if (errno != EISDIR && errno != EPERM) return from_errno("remove " + path, errno);
    if (::unlinkat(parent, path.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
    // Others may add files while we remove them; give up after a few rounds.
    if ((errno != ENOTEMPTY && errno != EEXIST) || attempt == 3) return from_errno("remove " + path, errno);
    auto directory = open_at(parent, path, kDirectoryFlags);
    if (!directory) return Failure(directory.error());
    if (auto ok = empty_directory(std::move(*directory)); !ok) return with_context("remove " + path, ok.error());
  }
}

}  // namespace osb::sys
