#include "kernel/remove_tree.h"

#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <unistd.h>

#include <fmt/format.h>

#include "base/id.h"
#include "sys/syscall.h"

namespace osb::kernel {

namespace {

// Descriptors held at a time, and stack. Directories below that are moved up.
constexpr int kMaxDepth = 32;

class TreeRemover {
 public:
  explicit TreeRemover(int root) : root_(root) {}

  // Removes what is in the directory. Directories too deep end up in the root, for another pass.
  Result<void> clear(UniqueFd directory, int depth) {
    DIR* const stream = ::fdopendir(directory.get());
    if (stream == nullptr) return sys::from_errno("read a directory", errno);
    const std::unique_ptr<DIR, int (*)(DIR*)> closer(stream, &::closedir);
    const int fd = directory.release();  // closedir closes it
    for (;;) {
      errno = 0;
      const dirent* const entry = ::readdir(stream);
      if (entry == nullptr) return errno == 0 ? Result<void>() : sys::from_errno("read a directory", errno);
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (auto gone = remove(fd, name, depth); !gone) return gone;
    }
  }

  Result<void> remove(int parent, const std::string& name, int depth) {
    if (::unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) return {};
    if (errno != EISDIR && errno != EPERM) return sys::from_errno("unlink " + name, errno);
    if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
    if (errno != ENOTEMPTY && errno != EEXIST) return sys::from_errno("rmdir " + name, errno);
    if (depth >= kMaxDepth) {
      const std::string up = fmt::format(".deep-{}", new_hex_id());
      if (::renameat(parent, name.c_str(), root_, up.c_str()) < 0) return sys::from_errno("rename " + name, errno);
      moved_ = true;
      return {};
    }
    auto below = sys::open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!below) return Failure(below.error());
    if (auto cleared = clear(std::move(*below), depth + 1); !cleared) return with_context(name, cleared.error());
    if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) < 0) return sys::from_errno("rmdir " + name, errno);
    return {};
  }

  bool take_moved() { return std::exchange(moved_, false); }

 private:
  const int root_;
  bool moved_ = false;
};

}  // namespace

Result<void> remove_tree(int parent, const std::string& name) {
  if (::unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) return {};
  if (errno != EISDIR && errno != EPERM) return sys::from_errno("unlink " + name, errno);
  const auto root = sys::open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!root) return Failure(root.error());
  TreeRemover remover(root->get());
  do {
    auto again = sys::open_at(root->get(), ".", O_RDONLY | O_DIRECTORY);
    if (!again) return Failure(again.error());
    if (auto cleared = remover.clear(std::move(*again), 0); !cleared) return with_context(name, cleared.error());
  } while (remover.take_moved());
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) < 0) return sys::from_errno("rmdir " + name, errno);
  return {};
}

}  // namespace osb::kernel
