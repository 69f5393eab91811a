#include "archive/tree_archive.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "archive/data_segments.h"
#include "sys/syscall.h"

namespace osb::archive {
namespace {

bool vanished(int error) { return error == ENOENT || error == ELOOP || error == ENXIO; }

}  // namespace

Result<TreeArchive> TreeArchive::open(const std::string& path, PackRules rules) {
  auto walker = sys::Walker::open(path, UINT32_MAX, sys::Walker::RootLink::Follow);
  if (!walker) return Failure(walker.error());
  return TreeArchive(std::move(*walker), path == "/" ? 0 : path.size(), std::move(rules));
}

void TreeArchive::describe(TarEntry& entry, const struct stat& st) {
  entry.mode = st.st_mode & 07777;
  entry.mtime = st.st_mtim;
  if (!rules_.owners) return;
  entry.uid = st.st_uid;
  entry.gid = st.st_gid;
  if (rules_.user_name) {
    if (const std::string* name = rules_.user_name(st.st_uid)) entry.owner = *name;
  }
  if (rules_.group_name) {
    if (const std::string* name = rules_.group_name(st.st_gid)) entry.group = *name;
  }
}

Result<void> TreeArchive::add(std::string& out, const sys::Walker::Entry& entry) {
  struct stat st;
  if (::fstatat(entry.directory, entry.name.data(), &st, AT_SYMLINK_NOFOLLOW) < 0) {
    if (vanished(errno)) return {};
    return sys::from_errno("stat " + std::string(entry.path), errno);
  }
  TarEntry header;
  header.path.append(".").append(entry.path.substr(root_length_));
  describe(header, st);
  switch (st.st_mode & S_IFMT) {
    case S_IFDIR:
      header.type = TarEntry::Type::Directory;
      header.path += '/';
      break;
    case S_IFLNK: {
      header.type = TarEntry::Type::Symlink;
      header.link.resize(PATH_MAX);
      const ssize_t n = ::readlinkat(entry.directory, entry.name.data(), header.link.data(), header.link.size());
      if (n < 0) return {};
      header.link.resize(static_cast<std::size_t>(n));
      break;
    }
    case S_IFIFO:
      if (!rules_.special_files) return {};
      header.type = TarEntry::Type::Fifo;
      break;
    case S_IFCHR:
    case S_IFBLK:
      if (!rules_.special_files) return {};
      header.type = S_ISCHR(st.st_mode) ? TarEntry::Type::CharDevice : TarEntry::Type::BlockDevice;
      header.major = ::major(st.st_rdev);
      header.minor = ::minor(st.st_rdev);
      break;
    case S_IFREG:
      return add_file(out, entry, std::move(header));
    default:
      return {};
  }
  append_tar_header(out, header);
  return {};
}

Result<void> TreeArchive::add_file(std::string& out, const sys::Walker::Entry& entry, TarEntry header) {
  const int fd = ::openat(entry.directory, entry.name.data(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    if (vanished(errno)) return {};
    return sys::from_errno("open " + std::string(entry.path), errno);
  }
  UniqueFd file(fd);
  struct stat st;
  if (::fstat(fd, &st) < 0) return sys::from_errno("stat " + std::string(entry.path), errno);
  if (!S_ISREG(st.st_mode)) return {};  // replaced since
  describe(header, st);
  if (st.st_nlink > 1) {
    const auto [first, fresh] = linked_.try_emplace({st.st_dev, st.st_ino}, header.path);
    if (!fresh) {
      header.type = TarEntry::Type::HardLink;
      header.link = first->second;
      append_tar_header(out, header);
      return {};
    }
  }
  header.size = static_cast<std::uint64_t>(st.st_size);
  segments_ = {{0, header.size}};
  if (st.st_blocks * 512 < st.st_size) {
    auto segments = data_segments(fd, header.size);
    if (!segments) return with_context(std::string(entry.path), segments.error());
    segments_ = std::move(*segments);
    header.sparse = segments_.size() != 1 || segments_[0].length != header.size;
    if (header.sparse) header.segments = segments_;
  }
  append_tar_header(out, header);
  const std::uint64_t stored = stored_bytes(header);
  padding_ = tar_padding(stored);
  segment_ = 0;
  done_ = 0;
  if (stored > 0) file_ = std::move(file);
  file_path_ = entry.path;
  return {};
}

Result<void> TreeArchive::read_contents(std::string& out, std::size_t limit) {
  while (segment_ < segments_.size()) {
    const TarEntry::Segment& segment = segments_[segment_];
    const std::uint64_t left = segment.length - done_;
    if (left == 0) {
      ++segment_;
      done_ = 0;
      continue;
    }
    if (out.size() >= limit) return {};
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(left, limit - out.size()));
    const std::size_t before = out.size();
    ssize_t got = 0;
    int error = 0;
    out.resize_and_overwrite(before + want, [&](char* data, std::size_t) {
      do {
        got = ::pread(file_.get(), data + before, want, static_cast<off_t>(segment.offset + done_));
      } while (got < 0 && errno == EINTR);
      error = errno;
      if (got == 0) std::memset(data + before, 0, want);
      return before + (got < 0 ? 0 : got == 0 ? want : static_cast<std::size_t>(got));
    });
    if (got < 0) return sys::from_errno("read " + file_path_, error);
    done_ += out.size() - before;
  }
  out.append(padding_, '\0');
  file_.reset();
  return {};
}

Result<bool> TreeArchive::fill(std::string& out, std::size_t limit) {
  if (!started_) {
    started_ = true;
    struct stat st;
    if (::fstat(walker_.root(), &st) < 0) return sys::from_errno("stat", errno);
    TarEntry root;
    root.type = TarEntry::Type::Directory;
    root.path = "./";
    describe(root, st);
    append_tar_header(out, root);
  }
  while (out.size() < limit) {
    if (file_) {
      if (auto ok = read_contents(out, limit); !ok) return Failure(ok.error());
      continue;
    }
    auto entry = walker_.next();
    if (!entry) return Failure(entry.error());
    if (*entry == nullptr) {
      out.append(kTarEndBytes, '\0');
      return false;
    }
    if (auto ok = add(out, **entry); !ok) return Failure(ok.error());
  }
  return true;
}

}  // namespace osb::archive
