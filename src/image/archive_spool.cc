#include "image/archive_spool.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sys/syscall.h"
#include "sys/write_all.h"

namespace osb::image {

Failure refuse_entry(std::string_view entry, std::string_view why) {
  return fail(Code::InvalidRequest, fmt::format("archive entry '{}': {}", entry.substr(0, 200), why));
}

namespace {

constexpr std::size_t kMaxEntries = 50'000;
constexpr std::size_t kMaxName = 1024;
constexpr int kMaxLinks = 8;

// The name without "." and doubled slashes, relative to `directory`; ".." only as far as the archive reaches.
Result<std::string> normalise(std::string_view directory, std::string_view text) {
  if (text.size() > kMaxName) return refuse_entry(text, "the name is too long");
  std::vector<std::string_view> parts;
  const auto add = [&](std::string_view path) {
    for (std::size_t at = 0; at <= path.size();) {
      const std::size_t end = std::min(path.find('/', at), path.size());
      const std::string_view part = path.substr(at, end - at);
      at = end + 1;
      if (part.empty() || part == ".") continue;
      if (part != "..") {
        parts.push_back(part);
      } else if (parts.empty()) {
        return false;
      } else {
        parts.pop_back();
      }
    }
    return true;
  };
  if (!add(directory) || !add(text)) return refuse_entry(text, "leads out of the archive");
  return fmt::format("{}", fmt::join(parts, "/"));
}

std::string parent_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return std::string(path.substr(0, slash == std::string_view::npos ? 0 : slash));
}

}  // namespace

Result<void> ArchiveSpool::begin(const archive::TarEntry& entry) {
  using Type = archive::TarEntry::Type;
  if (count_++ == kMaxEntries) return fail(Code::TooLarge, "archive: too many entries");
  if (entry.path.empty()) return fail(Code::InvalidRequest, "archive: an entry without a name");
  auto name = normalise("", entry.path);
  if (!name) return Failure(name.error());
  name_.clear();
  file_.reset();
  if (entry.type == Type::Directory) return {};
  entry_ = {};
  if (entry.type == Type::HardLink || entry.type == Type::Symlink) {
    auto to = normalise(entry.type == Type::Symlink ? parent_of(*name) : "", entry.link);
    if (!to) return Failure(to.error());
    entry_.link = std::move(*to);
  } else if (entry.type != Type::File) {
    return refuse_entry(*name, "a kind of file that does not belong into an archive of images");
  } else if (entry.size > limit_ - bytes_) {
    return fail(Code::TooLarge, fmt::format("archive: its files are larger than {} bytes", limit_));
  } else {
    entry_.file = files_++;
    entry_.size = entry.size;
    bytes_ += entry.size;
    auto file = sys::open_at(AT_FDCWD, path(entry_.file), O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (!file) return Failure(file.error());
    file_ = std::move(*file);
  }
  name_ = std::move(*name);
  return {};
}

Result<void> ArchiveSpool::data(std::uint64_t offset, std::string_view bytes) {
  return sys::write_all_at(file_.get(), offset, bytes, "archive entry");
}

Result<void> ArchiveSpool::end() {
  if (name_.empty()) return {};
  if (const UniqueFd file = std::move(file_); file && ::ftruncate(file.get(), static_cast<off_t>(entry_.size)) < 0) {
    return sys::from_errno("truncate", errno);
  }
  // As with any tar, the last of several entries of one name counts.
  if (const auto old = entries_.find(name_); old != entries_.end() && old->second.link.empty()) {
    (void)::unlink(path(old->second.file).c_str());
  }
  entries_.insert_or_assign(std::move(name_), std::move(entry_));
  return {};
}

Result<UniqueFd> ArchiveSpool::open(std::string_view wanted, std::uint64_t* size) const {
  auto name = normalise("", wanted);
  if (!name) return Failure(name.error());
  for (int links = 0; links <= kMaxLinks; ++links) {
    const auto it = entries_.find(*name);
    if (it == entries_.end()) return refuse_entry(wanted, "is missing");
    if (it->second.link.empty()) {
      if (size != nullptr) *size = it->second.size;
      return sys::open_at(AT_FDCWD, path(it->second.file), O_RDONLY);
    }
    *name = it->second.link;
  }
  return refuse_entry(wanted, "a chain of links without end");
}

Result<std::string> ArchiveSpool::text(std::string_view name, std::size_t limit) const {
  std::uint64_t size = 0;
  const auto file = open(name, &size);
  if (!file) return Failure(file.error());
  if (size > limit) return fail(Code::TooLarge, fmt::format("archive entry '{}': larger than {} bytes", name, limit));
  std::string out(size, '\0');
  for (std::size_t at = 0; at < out.size();) {
    const ssize_t got = ::read(file->get(), out.data() + at, out.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return sys::from_errno("read archive entry", errno);
    if (got == 0) return fail(Code::Internal, "archive: its scratch file is too short");
    at += static_cast<std::size_t>(got);
  }
  return out;
}

}  // namespace osb::image
