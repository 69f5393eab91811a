#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "base/timed_log.h"

namespace osb::runtime {

// One message of a container's log.
struct LogFrame {
  int stream = 0;  // 1 is standard output, 2 standard error
  std::optional<Timestamp> time;
  LogPiece piece;
};

// Output of a container without a terminal as the engine sends it: frames of one byte for the stream, three of nothing,
// a length in four, big endian, and so many bytes. Asked for with times each frame is a time, a space, and a line or a
// part of a long one.
class LogFrames {
 public:
  // Appends what is complete. Fails for what cannot be a frame.
  Result<void> feed(std::string_view bytes, std::vector<LogFrame>& out);
  bool in_frame() const { return !rest_.empty(); }

 private:
  std::string rest_;
};

// The position of a reader in one stream of a log, so that reading its end again gives only the rest: a time, and the
// number of messages of that very moment.
class LogMark {
 public:
  const std::optional<Timestamp>& time() const { return time_; }
  void note(const LogFrame& frame);
  // For the messages of the other look, in their order: whether it was there the first time.
  bool knows(const LogFrame& frame);

 private:
  std::optional<Timestamp> time_;
  std::size_t count_ = 0;
};

}  // namespace osb::runtime
