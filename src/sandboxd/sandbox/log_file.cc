#include "sandboxd/sandbox/log_file.h"

#include <algorithm>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

#include "base/timed_log.h"
#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

constexpr std::size_t kBlock = 256 << 10;
// A sandbox can make its log as large as it likes. Lines are sought in so much of its end: many times what is kept.
constexpr std::uint64_t kSearched = 256 << 20;
constexpr std::uint64_t kLongestLine = 16 << 20;

Result<std::uint64_t> size_of(int fd) {
  struct stat info{};
  if (::fstat(fd, &info) < 0) return sys::from_errno("stat log", errno);
  return static_cast<std::uint64_t>(info.st_size);
}

Result<std::string> read_at(int fd, std::uint64_t offset, std::size_t limit) {
  std::string out(limit, '\0');
  for (;;) {
    const ssize_t size = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return sys::from_errno("read log", errno);
    out.resize(static_cast<std::size_t>(size));
    return out;
  }
}

// The first place from `offset` on that was not freed; the end of the file where all was.
Result<std::uint64_t> next_kept(int fd, std::uint64_t offset) {
  const off_t kept = ::lseek(fd, static_cast<off_t>(offset), SEEK_DATA);
  if (kept >= 0) return static_cast<std::uint64_t>(kept);
  if (errno != ENXIO) return offset;  // a file system without holes
  const auto end = size_of(fd);
  return end ? std::max(*end, offset) : end;
}

// The place behind the next newline, or the end of the file. A line that does not end is left in its middle.
Result<std::uint64_t> next_line(int fd, std::uint64_t offset) {
  for (const std::uint64_t last = offset + kLongestLine; offset < last;) {
    auto block = read_at(fd, offset, kBlock);
    if (!block) return Failure(block.error());
    if (block->empty()) return offset;
    const std::size_t newline = block->find('\n');
    if (newline != std::string::npos) return offset + newline + 1;
    offset += block->size();
  }
  return offset;
}

// The first line between `begin`, which begins one, and `end` whose stamp is not before `since`.
Result<std::uint64_t> find_since(int fd, std::uint64_t begin, std::uint64_t end, const std::string& since) {
  std::string rest;  // a stamp that the block before has cut
  bool at_line = true;
  for (std::uint64_t at = begin;;) {
    auto block = read_at(fd, at, static_cast<std::size_t>(std::min<std::uint64_t>(end - std::min(at, end), kBlock)));
    if (!block) return Failure(block.error());
    if (block->empty()) return at;
    at += block->size();
    const std::string text = std::exchange(rest, {}) + *block;
    const std::uint64_t first = at - text.size();
    for (std::size_t i = 0; i < text.size();) {
      if (at_line) {
        const std::string_view line = std::string_view(text).substr(i);
        if (line.size() < kLogStampSize && line.find('\n') == std::string_view::npos) {
          rest = line;
          break;
        }
        if (begins_with_log_stamp(line) && line.substr(0, kLogStampSize - 1) >= since) return first + i;
      }
      const std::size_t newline = text.find('\n', i);
      at_line = newline != std::string::npos;
      i = at_line ? newline + 1 : text.size();
    }
  }
}

// The last `lines` lines between `begin` and `end`.
Result<std::uint64_t> find_tail(int fd, std::uint64_t begin, std::uint64_t end, std::size_t lines) {
  bool last_byte = true;
  for (std::uint64_t at = end; at > begin;) {
    const std::uint64_t size = std::min<std::uint64_t>(at - begin, kBlock);
    auto block = read_at(fd, at - size, static_cast<std::size_t>(size));
    if (!block) return Failure(block.error());
    at -= size;
    for (std::size_t i = block->size(); i-- > 0;) {
      if ((*block)[i] == '\n' && !last_byte && lines-- <= 1) return at + i + 1;
      last_byte = false;  // a newline at the very end begins no line
    }
  }
  return begin;
}

}  // namespace

Result<std::uint64_t> find_log_start(int fd, const LogsFrom& from) {
  const auto end = size_of(fd);
  if (!end) return end;
  const auto kept = next_kept(fd, 0);
  if (!kept) return kept;
  std::uint64_t begin = *kept;
  const bool searched = !from.since.empty() || from.tail;
  if (searched && *end > kSearched) begin = std::max(begin, *end - kSearched);
  if (begin > 0) {
    const auto line = next_line(fd, begin);
    if (!line) return line;
    begin = *line;
  }
  if (!from.since.empty()) {
    const auto since = find_since(fd, begin, *end, from.since);
    if (!since) return since;
    begin = *since;
  }
  if (!from.tail || begin >= *end) return begin;
  if (*from.tail == 0) return *end;
  return find_tail(fd, begin, *end, *from.tail);
}

Result<LogChunk> read_log(int fd, std::uint64_t offset, std::size_t limit) {
  LogChunk out;
  auto bytes = read_at(fd, offset, limit);
  if (!bytes) return Failure(bytes.error());
  // Afterwards: bytes that were freed while we read them are zeros.
  const auto kept = next_kept(fd, offset);
  if (!kept) return Failure(kept.error());
  if (*kept > offset && !bytes->empty()) {
    const auto line = next_line(fd, *kept);
    if (!line) return Failure(line.error());
    out.gone = *line - offset;
    offset = *line;
    bytes = read_at(fd, offset, limit);
    if (!bytes) return Failure(bytes.error());
  }
  out.next = offset + bytes->size();
  out.bytes = std::move(*bytes);
  return out;
}

}  // namespace osb::sandboxd
