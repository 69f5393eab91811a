#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::execd {

// Lines `first` to `first + count - 1` of a file, counted from 1: joined by LF, without the CR before an LF or the end,
// and without a line break at the end. Reads in pieces, so a line may have any length, and not beyond the last line
// that is wanted.
class LineRange {
 public:
  LineRange(UniqueFd file, std::uint64_t first, std::uint64_t count);

  // Appends until `out` has about `limit` bytes; false when that was the rest. Blocks.
  Result<bool> fill(std::string& out, std::size_t limit);

 private:
  void take(std::string& out, std::string_view bytes);
  void select(std::string& out, std::string_view bytes);

  UniqueFd file_;
  std::string buffer_;
  std::uint64_t first_;
  std::uint64_t end_;       // line number behind the last wanted one
  std::uint64_t line_ = 1;  // of the next byte
  bool line_begun_ = false;
  bool held_cr_ = false;
};

}  // namespace osb::execd
