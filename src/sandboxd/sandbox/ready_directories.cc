#include "sandboxd/sandbox/ready_directories.h"

#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "base/id.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "kernel/spread_directories.h"
#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

constexpr std::size_t kKept = 16;
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

Result<std::unique_ptr<ReadyDirectories>> ReadyDirectories::open(const std::string& state_directory) {
  std::unique_ptr<ReadyDirectories> out(new ReadyDirectories(state_directory + "/ready"));
  const std::string trash = state_directory + "/trash/ready." + new_hex_id();
  if (::rename(out->directory_.c_str(), trash.c_str()) < 0 && errno != ENOENT) {
    return sys::from_errno("rename " + out->directory_, errno);
  }
  if (auto made = make_directory(out->directory_, kPrivate); !made) return Failure(made.error());
  if (auto spread = kernel::spread_subdirectories(out->directory_); !spread) return Failure(spread.error());
  return out;
}

Result<void> ReadyDirectories::make_empty(const std::string& target) const {
  for (const auto& [name, mode] :
       {std::pair{"", kPrivate}, {"/upper", kUpper}, {"/work", kPrivate}, {"/run", kPrivate}}) {
    if (auto made = make_directory(target + name, mode); !made) return made;
  }
  return {};
}

Result<void> ReadyDirectories::take(const std::string& target) {
  std::string path;
  {
    const std::lock_guard lock(mutex_);
    if (!ready_.empty()) {
      path = std::move(ready_.back());
      ready_.pop_back();
    }
  }
  if (!path.empty()) {
    if (::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0) return {};
    log_warn("prepared directory not used", {{"path", path}, {"error", std::generic_category().message(errno)}});
  }
  return make_empty(target);
}

Result<std::string> ReadyDirectories::prepare() {
  std::string path;
  {
    const std::lock_guard lock(mutex_);
    if (ready_.size() >= kKept) return path;
    path = fmt::format("{}/{}", directory_, next_++);
  }
  if (auto made = make_empty(path); !made) return Failure(made.error());
  if (auto made = make_files(path + "/run"); !made) return Failure(made.error());
  return path;
}

void ReadyDirectories::refill() {
  for (;;) {
    auto path = prepare();
    // A create that finds none makes its own, and says what is wrong.
    if (!path) return log_warn("no directory prepared", {{"error", path.error().message}});
    if (path->empty()) return;
    const std::lock_guard lock(mutex_);
    ready_.push_back(std::move(*path));
  }
}

}  // namespace osb::sandboxd
