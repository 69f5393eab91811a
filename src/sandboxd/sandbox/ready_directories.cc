#include "sandboxd/sandbox/ready_directories.h"

#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>

#include <fmt/format.h>

#include "base/id.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "kernel/spread_directories.h"
#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

constexpr std::size_t kKept = 8;
constexpr mode_t kPrivate = 0700;
constexpr mode_t kUpper = 0755;

Result<void> make_directory(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) < 0) return sys::from_errno("create directory " + path, errno);
  return {};
}

Result<void> make_files(const std::string& run) {
  for (const char* name : {"/entrypoint.log", "/execd.log"}) {
    const UniqueFd file(::open((run + name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file) return sys::from_errno("create " + run + name, errno);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ReadyDirectories>> ReadyDirectories::open(const std::string& disk, DiskTrees trees,
                                                                 std::uint64_t disk_bytes) {
  std::unique_ptr<ReadyDirectories> out(new ReadyDirectories(disk + "/ready", std::move(trees), disk_bytes));
  if (auto made = make_directory(out->directory_, kPrivate); !made && made.error().code != Code::Conflict) {
    return Failure(made.error());
  }
  // One by one: each has a tree, and the tree's limit goes with it.
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(out->directory_, error)) {
    const std::string trash = disk + "/trash/ready." + new_hex_id();
    if (::rename(entry.path().c_str(), trash.c_str()) < 0) {
      return sys::from_errno("rename " + entry.path().string(), errno);
    }
  }
  if (auto spread = kernel::spread_subdirectories(out->directory_); !spread) return Failure(spread.error());
  return out;
}

Result<void> ReadyDirectories::make_empty(const std::string& target) const {
  if (auto made = make_directory(target, kPrivate); !made) return made;
  if (trees_.limits()) {
    if (auto made = trees_.make(tree(target), kPrivate, disk_bytes_); !made) return made;
  }
  for (const auto& [name, mode] : {std::pair{"/upper", kUpper}, {"/work", kPrivate}, {"/run", kPrivate}}) {
    if (auto made = make_directory(tree(target) + name, mode); !made) return made;
  }
  return {};
}

std::string ReadyDirectories::take_ready() {
  const std::lock_guard lock(mutex_);
  if (ready_.empty()) return "";
  std::string path = std::move(ready_.back());
  ready_.pop_back();
  return path;
}

Result<void> ReadyDirectories::take(const std::string& target) {
  if (const std::string path = take_ready(); !path.empty()) {
    if (auto named = give_name(path, target); named || named.error().code == Code::Conflict) return named;
  }
  return make_empty(target);
}

Result<std::string> ReadyDirectories::take() {
  if (std::string path = take_ready(); !path.empty()) return path;
  return make(SIZE_MAX);
}

Result<void> ReadyDirectories::give_name(const std::string& path, const std::string& target) const {
  if (::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0) return {};
  const int error = errno;
  discard(path);
  return sys::from_errno("rename " + path + " to " + target, error);
}

void ReadyDirectories::discard(const std::string& path) const {
  auto parent = sys::open_at(AT_FDCWD, directory_, O_RDONLY | O_DIRECTORY);
  auto removed =
      parent ? trees_.remove(parent->get(), path.substr(directory_.size() + 1)) : Result<void>(Failure(parent.error()));
  if (!removed) log_warn("directory left", {{"path", path}, {"error", removed.error().message}});
}

// Nothing (an empty path) when there are so many.
Result<std::string> ReadyDirectories::make(std::size_t limit) {
  std::string path;
  {
    const std::lock_guard lock(mutex_);
    if (ready_.size() >= limit) return path;
    path = fmt::format("{}/{}", directory_, next_++);
  }
  if (auto made = make_empty(path); !made) return Failure(made.error());
  if (auto made = make_files(tree(path) + "/run"); !made) return Failure(made.error());
  return path;
}

void ReadyDirectories::refill() {
  for (;;) {
    auto path = make(kKept);
    // A create that finds none makes its own, and says what is wrong.
    if (!path) return log_warn("no directory prepared", {{"error", path.error().message}});
    if (path->empty()) return;
    const std::lock_guard lock(mutex_);
    ready_.push_back(std::move(*path));
  }
}

}  // namespace osb::sandboxd
