#include "client/tar_packer.h"

#include <algorithm>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <unistd.h>

#include "client/local_file.h"
#include "sys/syscall.h"

namespace opensandbox {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::size_t kPiece = 1024 * 1024;

std::size_t padding(std::uint64_t size) { return (kBlock - size % kBlock) % kBlock; }

void put_octal(char* field, std::size_t size, std::uint64_t value) {
  for (std::size_t i = size - 1; i-- > 0; value >>= 3) field[i] = static_cast<char>('0' + (value & 7));
}

bool fits_octal(std::size_t size, std::uint64_t value) { return value >> (3 * (size - 1)) == 0; }

// "12 path=..\n", where the number counts itself.
void add_record(std::string& out, std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t length = rest + 1;
  while (std::to_string(length).size() + rest != length) length = std::to_string(length).size() + rest;
  out.append(std::to_string(length)).append(" ").append(key).append("=").append(value).append("\n");
}

void put_block(std::string& out, std::string_view path, std::string_view link, char type, mode_t mode,
               std::uint64_t size, std::int64_t mtime) {
  char block[kBlock] = {};
  path.copy(block, 100);
  put_octal(block + 100, 8, mode & 07777);
  put_octal(block + 108, 8, 0);
  put_octal(block + 116, 8, 0);
  put_octal(block + 124, 12, size);
  put_octal(block + 136, 12, static_cast<std::uint64_t>(std::max<std::int64_t>(mtime, 0)));
  std::memset(block + 148, ' ', 8);
  block[156] = type;
  link.copy(block + 157, 100);
  std::memcpy(block + 257, "ustar\00000", 8);
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put_octal(block + 148, 7, sum);
  out.append(block, sizeof(block));
}

}  // namespace

Result<TarPacker> TarPacker::open(const std::string& directory) {
  auto fd = osb::sys::open_at(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
  if (!fd) return from_local(fd.error());
  TarPacker out;
  struct stat st{};
  if (::fstat(fd->get(), &st) < 0) return from_errno("stat " + directory, errno);
  out.header("./", st, '5', 0, {});
  if (auto entered = out.enter(std::move(*fd), "./"); !entered) return Failure(std::move(entered.error()));
  return out;
}

Result<void> TarPacker::enter(osb::UniqueFd directory, std::string path) {
  const int copy = ::fcntl(directory.get(), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return from_errno("open " + path, errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(copy), &::closedir);
  if (!stream) {
    ::close(copy);
    return from_errno("open " + path, errno);
  }
  Level level{std::move(directory), {}, std::move(path)};
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr && errno != 0) return from_errno("read " + level.path, errno);
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") level.names.emplace_back(name);
  }
  std::ranges::sort(level.names, std::greater());
  levels_.push_back(std::move(level));
  return {};
}

Result<std::string_view> TarPacker::next() {
  out_.clear();
  while (out_.size() < kPiece && !ended_) {
    if (file_.get() >= 0) {
      if (auto read = read_file(); !read) return Failure(std::move(read.error()));
    } else if (!levels_.empty()) {
      if (auto added = add_next(); !added) return Failure(std::move(added.error()));
    } else {
      out_.append(2 * kBlock, '\0');
      ended_ = true;
    }
  }
  return std::string_view(out_);
}

Result<void> TarPacker::add_next() {
  Level& level = levels_.back();
  if (level.names.empty()) {
    levels_.pop_back();
    return {};
  }
  const std::string name = std::move(level.names.back());
  level.names.pop_back();
  return add(level, name);
}

Result<void> TarPacker::add(const Level& level, const std::string& name) {
  const int directory = level.directory.get();
  std::string path = level.path + name;
  struct stat st{};
  if (::fstatat(directory, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) < 0) {
    return errno == ENOENT ? Result<void>() : from_errno("stat " + path, errno);  // gone meanwhile
  }
  if (S_ISLNK(st.st_mode)) {
    std::string target(static_cast<std::size_t>(std::max<off_t>(st.st_size, 255)) + 1, '\0');
    const ssize_t n = ::readlinkat(directory, name.c_str(), target.data(), target.size());
    if (n < 0) return from_errno("readlink " + path, errno);
    target.resize(static_cast<std::size_t>(n));
    header(path, st, '2', 0, target);
    return {};
  }
  if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) return {};
  auto fd = osb::sys::open_at(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (!fd) return from_local(fd.error());
  if (::fstat(fd->get(), &st) < 0) return from_errno("stat " + path, errno);
  if (S_ISDIR(st.st_mode)) {
    path += '/';
    header(path, st, '5', 0, {});
    return enter(std::move(*fd), std::move(path));
  }
  if (!S_ISREG(st.st_mode)) return {};
  if (st.st_nlink > 1) {
    const auto [first, fresh] = linked_.emplace(std::pair(st.st_dev, st.st_ino), path);
    if (!fresh) {
      header(path, st, '1', 0, first->second);
      return {};
    }
  }
  left_ = size_ = static_cast<std::uint64_t>(st.st_size);
  header(path, st, '0', left_, {});
  if (left_ > 0) {
    file_ = std::move(*fd);
    file_path_ = std::move(path);
  }
  return {};
}

Result<void> TarPacker::read_file() {
  const std::size_t have = out_.size();
  const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(left_, kPiece));
  ssize_t got = 0;
  int error = 0;
  out_.resize_and_overwrite(have + want, [&](char* data, std::size_t) {
    do {
      got = ::read(file_.get(), data + have, want);
    } while (got < 0 && errno == EINTR);
    error = errno;
    return have + static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  });
  if (got < 0) return from_errno("read " + file_path_, error);
  if (got == 0) {  // shorter than it was
    out_.append(want, '\0');
    got = static_cast<ssize_t>(want);
  }
  left_ -= static_cast<std::uint64_t>(got);
  if (left_ == 0) {
    file_.reset();
    out_.append(padding(size_), '\0');
  }
  return {};
}

void TarPacker::header(const std::string& path, const struct stat& st, char type, std::uint64_t size,
                       const std::string& link) {
  std::string records;
  if (path.size() > 100) add_record(records, "path", path);
  if (link.size() > 100) add_record(records, "linkpath", link);
  if (!fits_octal(12, size)) add_record(records, "size", std::to_string(size));
  if (st.st_mtim.tv_nsec != 0 && st.st_mtim.tv_sec >= 0) {
    std::string fraction = std::to_string(st.st_mtim.tv_nsec);
    fraction.insert(0, 9 - fraction.size(), '0');
    add_record(records, "mtime", std::to_string(st.st_mtim.tv_sec) + '.' + fraction);
  }
  if (!records.empty()) {
    put_block(out_, "pax", {}, 'x', 0644, records.size(), 0);
    out_ += records;
    out_.append(padding(records.size()), '\0');
  }
  put_block(out_, path, link, type, st.st_mode, fits_octal(12, size) ? size : 0, st.st_mtim.tv_sec);
}

}  // namespace opensandbox
