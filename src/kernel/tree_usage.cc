#include "kernel/tree_usage.h"

#include <algorithm>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <vector>

#include "sys/syscall.h"

namespace osb::kernel {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

Result<Directory> open_directory(int parent, const char* name) {
  auto fd = sys::open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!fd) return Failure(fd.error());
  Directory out(::fdopendir(fd->get()));
  if (!out) return sys::from_errno("read directory", errno);
  (void)fd->release();
  return out;
}

bool is_dots(const char* name) { return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0')); }

}  // namespace

Result<TreeUsage> tree_usage(int directory, const TreeUsageLimits& limits) {
  struct stat top{};
  if (::fstat(directory, &top) < 0) return sys::from_errno("stat", errno);
  auto root = open_directory(directory, ".");
  if (!root) return Failure(root.error());
  TreeUsage out;
  std::vector<Directory> open;
  open.push_back(std::move(*root));
  while (!open.empty()) {
    const int parent = ::dirfd(open.back().get());
    const dirent* entry = ::readdir(open.back().get());
    if (entry == nullptr) {
      open.pop_back();
      continue;
    }
    if (is_dots(entry->d_name)) continue;
    if (out.entries == limits.entries) {
      out.complete = false;
      break;
    }
    struct stat info{};
    if (::fstatat(parent, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0 || info.st_dev != top.st_dev) continue;
    ++out.entries;
    const auto bytes = static_cast<std::uint64_t>(info.st_blocks) * 512;
    if (!S_ISDIR(info.st_mode)) {
      out.bytes += bytes / std::max<nlink_t>(info.st_nlink, 1);
      continue;
    }
    out.bytes += bytes;
    if (open.size() == limits.depth) {
      out.complete = false;
    } else if (auto below = open_directory(parent, entry->d_name)) {
      open.push_back(std::move(*below));
    }
  }
  return out;
}

}  // namespace osb::kernel
