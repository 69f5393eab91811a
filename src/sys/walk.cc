#include "sys/walk.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>

#include "sys/syscall.h"

namespace osb::sys {

Result<DirectoryNames> DirectoryNames::read(int directory) {
  constexpr std::size_t kBuffer = 64 * 1024;
  const auto buffer = std::make_unique_for_overwrite<char[]>(kBuffer);
  DirectoryNames out;
  for (;;) {
    const ssize_t got = ::getdents64(directory, buffer.get(), kBuffer);
    if (got < 0) return from_errno("read directory", errno);
    if (got == 0) break;
    for (ssize_t at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer.get() + at);
      at += entry->d_reclen;
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      std::uint64_t start = 0;
      std::memcpy(&start, name.data(), std::min(name.size(), sizeof start));
      if constexpr (std::endian::native == std::endian::little) start = __builtin_bswap64(start);
      if (out.block_.size() + name.size() + 1 > UINT32_MAX) return fail(Code::Internal, "directory is too large");
      out.names_.push_back({start, static_cast<std::uint32_t>(out.block_.size()),
                            static_cast<std::uint16_t>(name.size()), entry->d_type});
      out.block_.append(name).push_back('\0');
    }
  }
  const char* block = out.block_.data();
  std::sort(out.names_.begin(), out.names_.end(), [block](const Name& a, const Name& b) {
    if (a.start != b.start) return a.start < b.start;
    return std::string_view(block + a.offset, a.length) < std::string_view(block + b.offset, b.length);
  });
  return out;
}

Result<Walker> Walker::open(std::string root, std::uint32_t max_depth, RootLink link) {
  const int flags = O_RDONLY | O_DIRECTORY | O_NONBLOCK | (link == RootLink::Refuse ? O_NOFOLLOW : 0);
  auto directory = open_at(AT_FDCWD, root, flags);
  if (!directory) return Failure(directory.error());
  if (root == "/") root.clear();
  Walker walker(std::move(root), max_depth);
  if (max_depth > 0) {
    if (auto ok = walker.push(std::move(*directory)); !ok) return Failure(ok.error());
  } else {
    walker.levels_.emplace_back().directory = std::move(*directory);
  }
  return walker;
}

Result<void> Walker::push(UniqueFd directory) {
  auto names = DirectoryNames::read(directory.get());
  if (!names) return with_context(path_, names.error());
  Level level;
  level.directory = std::move(directory);
  level.number = ++directories_;
  level.names = std::move(*names);
  level.path_length = path_.size();
  // The root stays open: callers use it.
  if (levels_.size() > kOpenLevels) {
    Level& far = levels_[levels_.size() - kOpenLevels];
    if (far.directory) {
      struct stat st;
      if (::fstat(far.directory.get(), &st) < 0) return from_errno("stat " + path_, errno);
      far.device = st.st_dev;
      far.inode = st.st_ino;
      far.directory.reset();
    }
  }
  levels_.push_back(std::move(level));
  return {};
}

// Opens the directory that was reported last. False: it is not there any more.
Result<bool> Walker::enter() {
  const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const int fd = ::openat(entry_.directory, entry_.name.data(), flags);
  if (fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return false;
    return from_errno("open " + path_, errno);
  }
  if (auto ok = push(UniqueFd(fd)); !ok) return Failure(ok.error());
  return true;
}

Result<void> Walker::pop() {
  const UniqueFd child = std::move(levels_.back().directory);
  levels_.pop_back();
  Level& level = levels_.back();
  if (level.directory) return {};
  auto parent = open_at(child.get(), "..", O_RDONLY | O_DIRECTORY);
  if (!parent) return with_context(path_, parent.error());
  struct stat st;
  if (::fstat(parent->get(), &st) < 0) return from_errno("stat " + path_, errno);
  if (st.st_dev != level.device || st.st_ino != level.inode) {
    return fail(Code::Internal, path_ + ": directory was moved while it was read");
  }
  level.directory = std::move(*parent);
  return {};
}

Result<const Walker::Entry*> Walker::next() {
  if (enter_) {
    enter_ = false;
    auto entered = enter();
    if (!entered) return Failure(entered.error());
  }
  for (;;) {
    Level& level = levels_.back();
    if (level.at == level.names.size()) {
      if (levels_.size() == 1) return nullptr;
      if (auto ok = pop(); !ok) return Failure(ok.error());
      continue;
    }
    const std::size_t i = level.at++;
    path_.resize(level.path_length);
    path_.append("/").append(level.names.text(i));
    entry_.directory = level.directory.get();
    entry_.directory_number = level.number;
    entry_.name = level.names.text(i);
    entry_.path = path_;
    std::uint8_t type = level.names[i].type;
    if (type == DT_UNKNOWN) {
      struct stat st;
      if (::fstatat(entry_.directory, entry_.name.data(), &st, AT_SYMLINK_NOFOLLOW) < 0) continue;
      type = S_ISDIR(st.st_mode) ? DT_DIR : DT_REG;
    }
    entry_.is_directory = type == DT_DIR;
    enter_ = entry_.is_directory && levels_.size() < max_depth_;
    return &entry_;
  }
}

}  // namespace osb::sys
