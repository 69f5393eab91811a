#include "runtime/docker/log_frames.h"

namespace osb::runtime {
namespace {

constexpr std::size_t kHead = 8;
constexpr std::size_t kLongest = 16 << 20;
constexpr std::size_t kLongestTime = 40;

LogFrame frame_of(int stream, std::string_view bytes) {
  const std::size_t space = bytes.substr(0, kLongestTime).find(' ');
  if (space != std::string_view::npos) {
    if (const auto time = parse_timestamp(bytes.substr(0, space))) {
      return {stream, *time, {std::string(bytes.substr(0, space)), std::string(bytes.substr(space + 1))}};
    }
  }
  return {stream, std::nullopt, {"", std::string(bytes)}};
}

}  // namespace

Result<void> LogFrames::feed(std::string_view bytes, std::vector<LogFrame>& out) {
  rest_ += bytes;
  std::string_view left = rest_;
  while (left.size() >= kHead) {
    std::size_t length = 0;
    for (std::size_t i = 4; i < kHead; ++i) length = length << 8 | static_cast<unsigned char>(left[i]);
    if (length > kLongest) return fail(Code::Internal, "the container engine sent a frame of the log without an end");
    if (left.size() - kHead < length) break;
    if (length > 0) out.push_back(frame_of(left[0], left.substr(kHead, length)));
    left.remove_prefix(kHead + length);
  }
  rest_.erase(0, rest_.size() - left.size());
  return {};
}

void LogMark::note(const LogFrame& frame) {
  if (!frame.time) return;
  count_ = frame.time == time_ ? count_ + 1 : 1;
  time_ = frame.time;
}

bool LogMark::knows(const LogFrame& frame) {
  if (!frame.time || !time_ || *frame.time > *time_) return false;
  if (*frame.time < *time_) return true;
  if (count_ == 0) return false;
  --count_;
  return true;
}

}  // namespace osb::runtime
