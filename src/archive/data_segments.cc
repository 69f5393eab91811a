#include "archive/data_segments.h"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

#include "sys/syscall.h"

namespace osb::archive {
namespace {

constexpr std::size_t kMaxSegments = 10'000;

// Joins segments with at most `gap` bytes between them; the gap is stored as zeros.
std::vector<TarEntry::Segment> joined(const std::vector<TarEntry::Segment>& segments, std::uint64_t gap) {
  std::vector<TarEntry::Segment> out;
  for (const auto& segment : segments) {
    if (!out.empty() && segment.offset - (out.back().offset + out.back().length) <= gap) {
      out.back().length = segment.offset + segment.length - out.back().offset;
    } else {
      out.push_back(segment);
    }
  }
  return out;
}

}  // namespace

Result<std::vector<TarEntry::Segment>> data_segments(int file, std::uint64_t size) {
  std::vector<TarEntry::Segment> out;
  for (std::uint64_t at = 0; at < size;) {
    const off_t data = ::lseek(file, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;
    if (data < 0 && errno == EINVAL) return std::vector<TarEntry::Segment>{{0, size}};
    if (data < 0) return sys::from_errno("seek data", errno);
    const off_t hole = ::lseek(file, data, SEEK_HOLE);
    if (hole < 0 && errno != ENXIO) return sys::from_errno("seek hole", errno);
    const std::uint64_t end = hole < 0 ? size : std::min(static_cast<std::uint64_t>(hole), size);
    if (static_cast<std::uint64_t>(data) >= end) break;
    out.push_back({static_cast<std::uint64_t>(data), end - static_cast<std::uint64_t>(data)});
    at = end;
  }
  for (std::uint64_t gap = 64 << 10; out.size() > kMaxSegments; gap *= 2) out = joined(out, gap);
  return out;
}

}  // namespace osb::archive
