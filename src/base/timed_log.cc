#include "base/timed_log.h"

#include <algorithm>

#include "base/time.h"
#include "base/utf8.h"

namespace osb {
namespace {

constexpr std::string_view kShape = "0000-00-00T00:00:00.000000000Z ";
static_assert(kShape.size() == kLogStampSize);
constexpr std::size_t kFraction = 20, kDigits = 9;

bool fits(char c, char shape) { return shape == '0' ? c >= '0' && c <= '9' : c == shape; }

// Whether more bytes could make a stamp of it.
bool may_become_stamp(std::string_view bytes) {
  return bytes.size() < kLogStampSize && std::equal(bytes.begin(), bytes.end(), kShape.begin(), fits);
}

// How many bytes at the end are the begin of a UTF-8 sequence whose rest is missing.
std::size_t incomplete_end(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

LogStamp make_log_stamp(const timespec& time) {
  LogStamp out;
  std::ranges::copy(kShape, out.begin());
  // Without the fraction it is "2025-01-02T03:04:05Z".
  const std::string second = format_timestamp_nanos(timespec{time.tv_sec, 0});
  std::copy_n(second.begin(), kFraction - 1, out.begin());
  long nanos = time.tv_nsec;
  for (std::size_t i = kDigits; i-- > 0; nanos /= 10) out[kFraction + i] = static_cast<char>('0' + nanos % 10);
  return out;
}

bool begins_with_log_stamp(std::string_view line) {
  return line.size() >= kLogStampSize &&
         std::equal(kShape.begin(), kShape.end(), line.begin(), [](char shape, char c) { return fits(c, shape); });
}

std::string without_log_stamps(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    if (begins_with_log_stamp(text)) text.remove_prefix(kLogStampSize);
    const std::size_t newline = text.find('\n');
    const std::size_t size = newline == std::string_view::npos ? text.size() : newline + 1;
    out.append(text.substr(0, size));
    text.remove_prefix(size);
  }
  return out;
}

void TimedLogReader::feed(std::string_view bytes, std::vector<LogPiece>& out) {
  std::string joined;
  if (!rest_.empty()) {
    joined = std::move(rest_) + std::string(bytes);
    rest_.clear();
    bytes = joined;
  }
  while (!bytes.empty()) {
    if (!in_line_) {
      if (may_become_stamp(bytes)) break;
      time_.clear();
      if (begins_with_log_stamp(bytes)) {
        time_ = bytes.substr(0, kLogStampSize - 1);
        bytes.remove_prefix(kLogStampSize);
      }
      in_line_ = true;
      continue;
    }
    const std::size_t newline = bytes.find('\n');
    const bool whole = newline != std::string_view::npos;
    const std::size_t size = whole ? newline + 1 : bytes.size() - incomplete_end(bytes);
    if (size == 0) break;
    out.push_back({time_, std::string(bytes.substr(0, size))});
    bytes.remove_prefix(size);
    in_line_ = !whole;
  }
  rest_ = bytes;
}

void TimedLogReader::finish(std::vector<LogPiece>& out) {
  if (!rest_.empty()) out.push_back({in_line_ ? time_ : std::string(), std::move(rest_)});
  rest_.clear();
  in_line_ = false;
}

}  // namespace osb
