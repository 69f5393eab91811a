#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <time.h>
#include <vector>

// A program's output with times, as execd keeps it in a file: every line begins with a stamp, the moment at which its
// first byte came. All output of the program stands behind a stamp, so the program cannot forge one; readers take bytes
// without a stamp as output without a time.
namespace osb {

// "2025-01-02T03:04:05.000000006Z ": always nine digits, always UTC, so that stamps compare as text.
inline constexpr std::size_t kLogStampSize = 31;
using LogStamp = std::array<char, kLogStampSize>;
LogStamp make_log_stamp(const timespec& time);
bool begins_with_log_stamp(std::string_view line);

// All lines without their stamps; the text begins where a line does.
std::string without_log_stamps(std::string_view text);

// Output of one moment: a line with its newline, or a part of one that the next piece goes on with.
struct LogPiece {
  std::string time;  // RFC 3339; empty when not known
  std::string text;
  bool operator==(const LogPiece&) const = default;
};

// Bytes of such a file, cut anywhere, into pieces. An unfinished line is returned at once as far as it goes, except for
// an incomplete stamp or UTF-8 sequence.
class TimedLogReader {
 public:
  void feed(std::string_view bytes, std::vector<LogPiece>& out);
  // Nothing more comes.
  void finish(std::vector<LogPiece>& out);

 private:
  std::string rest_;  // bytes that were not given yet
  std::string time_;  // of the line we are in
  bool in_line_ = false;
};

}  // namespace osb
