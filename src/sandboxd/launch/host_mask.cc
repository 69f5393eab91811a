#include "sandboxd/launch/host_mask.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <filesystem>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/log.h"
#include "image/digest.h"
#include "sys/syscall.h"
#include "sys/walk.h"

namespace osb::sandboxd {
namespace {

constexpr std::uint32_t kInDirectories = IN_CREATE | IN_MOVED_TO | IN_ATTRIB | IN_ONLYDIR;
constexpr std::uint32_t kInPackages = IN_MOVED_TO | IN_CLOSE_WRITE | IN_ONLYDIR;
constexpr std::uint32_t kAnyDepth = UINT32_MAX;

bool is_closed(const struct stat& st) {
  const mode_t needed = S_ISDIR(st.st_mode) ? S_IROTH | S_IXOTH : S_IROTH;
  return !S_ISLNK(st.st_mode) && (st.st_mode & needed) != needed;
}

std::uint32_t depth_of(std::string_view path) {
  return path.empty() ? 0 : 1 + static_cast<std::uint32_t>(std::ranges::count(path, '/'));
}

}  // namespace

HostMask::HostMask(std::string parent, std::string prefix, std::string usr, std::string packages)
    : parent_(std::move(parent)),
      prefix_(std::move(prefix) + "-" + std::string(kUsrMask)),
      usr_(std::move(usr)),
      packages_(std::move(packages)) {
  // The first sandbox waits for it; the daemon's start does not. All members exist by now.
  first_ = std::async(std::launch::async, [this] { return first_look(); });
}

HostMask::~HostMask() {
  if (first_.valid() && first_.wait_for(std::chrono::seconds(0)) != std::future_status::deferred) first_.wait();
}

Result<void> HostMask::first_look() {
  inotify_ = UniqueFd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (inotify_.get() < 0) return sys::from_errno("inotify", errno);
  packages_watch_ = ::inotify_add_watch(inotify_.get(), packages_.c_str(), kInPackages);
  return look_below("");
}

void HostMask::watch(const std::string& path) {
  if (depth_of(path) > kWatchedDepth) return;
  const int added = ::inotify_add_watch(inotify_.get(), (usr_ + "/" + path).c_str(), kInDirectories);
  if (added >= 0) {
    watched_[added] = path;
  } else if (errno == ENOSPC) {
    log_warn("image host: no inotify watch left; files closed on the host are noticed at the next start",
             {{"path", path}});
  }
}

bool HostMask::is_below_hidden(const std::string& path) const {
  for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    if (hidden_.contains(path.substr(0, slash)) || hidden_.contains(path.substr(0, slash + 1))) return true;
  }
  return false;
}

Result<void> HostMask::look_below(const std::string& path) {
  // Forgets the earlier findings.
  std::erase_if(hidden_,
                [&](const std::string& each) { return path.empty() || each == path || each.starts_with(path + "/"); });
  dirty_ = true;
  if (is_below_hidden(path)) return {};
  const std::string root = path.empty() ? usr_ : usr_ + "/" + path;
  struct stat top{}, st{};
  if (::lstat(usr_.c_str(), &top) < 0) return sys::from_errno("stat " + usr_, errno);
  if (is_closed(top)) return fail(Code::Unsupported, usr_ + " of this host is closed to its users");
  if (::lstat(root.c_str(), &st) < 0) return errno == ENOENT ? Result<void>() : sys::from_errno("stat " + root, errno);
  if (is_closed(st)) {
    hidden_.insert(path);
    return {};
  }
  if (!S_ISDIR(st.st_mode)) return {};
  watch(path);
  auto walker = sys::Walker::open(root, kAnyDepth);
  if (!walker) return Failure(walker.error());
  for (;;) {
    auto entry = walker->next();
    if (!entry) return Failure(entry.error());
    if (*entry == nullptr) return {};
    if (::fstatat((*entry)->directory, (*entry)->name.data(), &st, AT_SYMLINK_NOFOLLOW) < 0) continue;
    const std::string_view inside = (*entry)->path.substr(usr_.size() + 1);
    if (is_closed(st)) {
      hidden_.emplace(inside);
      if ((*entry)->is_directory) walker->skip();
    } else if ((*entry)->is_directory && st.st_dev != top.st_dev) {
      hidden_.emplace(std::string(inside) + "/");
      walker->skip();
    } else if ((*entry)->is_directory) {
      watch(std::string(inside));
    }
  }
}

Result<void> HostMask::note_changes() {
  alignas(inotify_event) char buffer[16384];
  std::set<std::string> changed;
  bool all = false;
  for (;;) {
    const ssize_t got = ::read(inotify_.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    for (const char* at = buffer; at < buffer + got;) {
      const auto* event = reinterpret_cast<const inotify_event*>(at);
      at += sizeof(inotify_event) + event->len;
      const auto known = watched_.find(event->wd);
      if (event->wd == packages_watch_ || (event->mask & IN_Q_OVERFLOW) != 0) {
        all = true;
      } else if ((event->mask & IN_IGNORED) != 0) {
        watched_.erase(event->wd);
      } else if (known != watched_.end()) {
        const std::string name = event->len > 0 ? event->name : "";
        changed.insert(name.empty() || known->second.empty() ? known->second + name : known->second + "/" + name);
      }
    }
  }
  if (all || changed.contains("")) return look_below("");
  for (const std::string& path : changed) {
    if (auto looked = look_below(path); !looked) return looked;
  }
  return {};
}

Result<std::string> HostMask::layer() {
  const std::lock_guard lock(mutex_);
  if (first_.valid()) {
    if (auto looked = first_.get(); !looked) {
      // Again with the next sandbox.
      first_ = std::async(std::launch::deferred, [this] { return first_look(); });
      return with_context("look for closed files of the host", looked.error());
    }
  }
  if (auto looked = note_changes(); !looked) return with_context("look for closed files of the host", looked.error());
  if (dirty_ && hidden_ != masked_) {
    if (auto made = make(); !made) return with_context("hide closed files of the host", made.error());
  }
  dirty_ = false;
  return layer_;
}

// Another set has another name: an old mask may have sandboxes above it. Appears in one step or not at all.
Result<void> HostMask::make() {
  std::string all;
  for (const std::string& path : hidden_) all.append(path).push_back('\0');
  const std::string directory = parent_ + "/" + prefix_ + image::Digest::of(all).hex().substr(0, 32);
  if (::access(directory.c_str(), F_OK) != 0) {
    std::string temporary = directory + ".XXXXXX";
    if (::mkdtemp(temporary.data()) == nullptr) return sys::from_errno("make " + temporary, errno);
    Result<void> done = fill(temporary);
    if (done && ::rename(temporary.c_str(), directory.c_str()) < 0)
      done = sys::from_errno("rename to " + directory, errno);
    std::error_code ignored;
    if (!done) std::filesystem::remove_all(temporary, ignored);
    if (!done) return done;
  }
  layer_ = hidden_.empty() ? "" : directory;
  masked_ = hidden_;
  return {};
}

Result<void> HostMask::fill(const std::string& directory) const {
  const std::string usr = directory + "/usr";
  if (::mkdir(usr.c_str(), 0755) < 0) return sys::from_errno("make " + usr, errno);
  if (::chmod(directory.c_str(), 0755) < 0) return sys::from_errno("set mode of " + directory, errno);
  const auto layer = sys::open_at(AT_FDCWD, usr, O_RDONLY | O_DIRECTORY);
  if (!layer) return Failure(layer.error());
  for (const std::string& path : hidden_) {
    if (auto added = add(layer->get(), path); !added) return added;
  }
  return {};
}

// The directories above it are seen with the attributes that they have here: those of the host's.
Result<void> HostMask::add(int layer, const std::string& path) const {
  for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string directory = path.substr(0, slash);
    struct stat st{};
    if (::lstat((usr_ + "/" + directory).c_str(), &st) < 0) return {};  // gone meanwhile, with all below it
    if (::mkdirat(layer, directory.c_str(), 0700) < 0 && errno != EEXIST) {
      return sys::from_errno("make " + directory, errno);
    }
    if (::fchownat(layer, directory.c_str(), st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        ::fchmodat(layer, directory.c_str(), st.st_mode & 07777, 0) < 0) {
      return sys::from_errno("set mode of " + directory, errno);
    }
  }
  if (path.ends_with('/')) {
    const auto made = sys::open_at(layer, path, O_RDONLY | O_DIRECTORY);
    if (!made) return Failure(made.error());
    if (::fsetxattr(made->get(), "trusted.overlay.opaque", "y", 1, 0) < 0)
      return sys::from_errno("hide " + path, errno);
    return {};
  }
  // As an overlay writes "not there".
  if (::mknodat(layer, path.c_str(), S_IFCHR | 0600, makedev(0, 0)) < 0) return sys::from_errno("hide " + path, errno);
  return {};
}

}  // namespace osb::sandboxd
