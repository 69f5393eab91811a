#include "sandboxd/snapshot/staged_directory.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/log.h"
#include "sys/syscall.h"
#include "sys/write_all.h"

namespace osb::sandboxd {

namespace fs = std::filesystem;

namespace {

constexpr const char* kTmp = ".tmp";

Result<std::vector<std::string>> entries_of(int directory, const std::string& what) {
  auto fd = sys::open_at(directory, ".", O_RDONLY | O_DIRECTORY);
  if (!fd) return with_context(what, fd.error());
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd->get()), &::closedir);
  if (stream == nullptr) return sys::from_errno("read " + what, errno);
  static_cast<void>(fd->release());
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(stream.get());
    if (entry == nullptr && errno != 0) return sys::from_errno("read " + what, errno);
    if (entry == nullptr) break;
    names.emplace_back(entry->d_name);
  }
  std::erase_if(names, [](const std::string& name) { return name == "." || name == ".."; });
  std::ranges::sort(names);
  return names;
}

void remove_or_log(const DiskTrees& trees, int tmp, const std::string& name) {
  if (auto removed = trees.remove(tmp, name); !removed) {
    log_warn("leftover not removed", {{"name", name}, {"error", removed.error().message}});
  }
}

}  // namespace

Result<void> sync_directory(int directory, const std::string& what) {
  if (::fsync(directory) < 0) return sys::from_errno("sync " + what, errno);
  return {};
}

Result<void> write_file(int directory, const std::string& name, std::string_view text, Sync sync) {
  const auto fd = sys::open_at(directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
  if (!fd) return Failure(fd.error());
  if (auto wrote = sys::write_all(fd->get(), text, name); !wrote) return wrote;
  if (sync == Sync::Now && ::fsync(fd->get()) < 0) return sys::from_errno("sync " + name, errno);
  return {};
}

StagedDirectory::Staged::~Staged() {
  fd_.reset();
  if (!name_.empty()) remove_or_log(trees_, tmp_, name_);
}

Result<StagedDirectory> StagedDirectory::open(const fs::path& path, DiskTrees trees) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) return sys::from_errno("mkdir " + path.string(), failed.value());
  auto directory = sys::open_at(AT_FDCWD, path.string(), O_RDONLY | O_DIRECTORY);
  if (!directory) return Failure(directory.error());
  if (::fchmod(directory->get(), 0700) < 0) return sys::from_errno("chmod " + path.string(), errno);
  if (::mkdirat(directory->get(), kTmp, 0700) < 0 && errno != EEXIST) {
    return sys::from_errno("mkdir " + (path / kTmp).string(), errno);
  }
  auto tmp = sys::open_at(directory->get(), kTmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!tmp) return with_context(path.string(), tmp.error());
  const auto left = entries_of(tmp->get(), (path / kTmp).string());
  if (!left) return Failure(left.error());
  for (const std::string& name : *left) remove_or_log(trees, tmp->get(), name);
  StagedDirectory out(path, std::move(trees), std::move(*directory), std::move(*tmp));
  const auto names = out.names();
  if (!names) return Failure(names.error());
  for (const std::string& name : *names) {
    const auto attached = out.trees_.attach(path / (name + out.trees_.below_volume()));
    if (!attached) log_error("volume cannot be used", {{"name", name}, {"error", attached.error().message}});
  }
  return out;
}

Result<StagedDirectory::Staged> StagedDirectory::stage(mode_t mode, std::uint64_t bytes) const {
  std::string name = new_hex_id();
  Staged staged(trees_, tmp_.get(), std::move(name), UniqueFd());
  const std::string files = staged.name_ + trees_.below_volume();
  if (auto made = trees_.make(path_ / kTmp / files, 0700, bytes); !made) {
    return with_context(path_.string(), made.error());
  }
  auto fd = sys::open_at(tmp_.get(), files, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!fd) return Failure(fd.error());
  staged.fd_ = std::move(*fd);
  if (::fchmod(staged.fd(), mode) < 0) return sys::from_errno("chmod in " + path_.string(), errno);  // past the umask
  return staged;
}

Result<void> StagedDirectory::publish(Staged& staged, const std::string& name) const {
  if (auto synced = trees_.sync(path_ / kTmp / (staged.name_ + trees_.below_volume())); !synced) return synced;
  if (::renameat2(tmp_.get(), staged.name_.c_str(), directory_.get(), name.c_str(), RENAME_NOREPLACE) < 0) {
    return sys::from_errno("rename to " + (path_ / name).string(), errno);
  }
  staged.name_.clear();
  if (auto synced = sync(); !synced) {
    // A snapshot that is not durable does not exist: no caller has seen it yet.
    auto back = withdraw(name);
    return synced;
  }
  return {};
}

Result<StagedDirectory::Staged> StagedDirectory::withdraw(const std::string& name) const {
  auto staged = take_out(name);
  if (!staged) return staged;
  if (auto synced = sync(); !synced) return Failure(synced.error());
  return staged;
}

Result<StagedDirectory::Staged> StagedDirectory::take_out(const std::string& name) const {
  std::string away = new_hex_id();
  if (::renameat(directory_.get(), name.c_str(), tmp_.get(), away.c_str()) < 0) {
    return sys::from_errno("rename " + (path_ / name).string(), errno);
  }
  return Staged(trees_, tmp_.get(), std::move(away), UniqueFd());
}

Result<void> StagedDirectory::sync() const { return sync_directory(directory_.get(), path_.string()); }

Result<std::vector<std::string>> StagedDirectory::names() const {
  auto names = entries_of(directory_.get(), path_.string());
  if (names) std::erase_if(*names, [](const std::string& name) { return name.starts_with('.'); });
  return names;
}

}  // namespace osb::sandboxd
