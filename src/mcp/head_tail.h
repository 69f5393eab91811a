#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mcp/reply_text.h"

namespace osb::mcp {

// A place in the output of a run: so many bytes into the line behind the first `lines` lines.
struct OutputPosition {
  std::uint64_t lines = 0;
  std::uint64_t seq = 0;  // number of the event before that line, as the sandbox counts; 0: the sandbox does not count
  std::size_t offset = 0;
  auto operator<=>(const OutputPosition&) const = default;
};

// Begin and end of a stream of lines. Memory is bounded by `keep`, however much is appended.
class HeadTail {
 public:
  explicit HeadTail(std::size_t keep) : keep_(keep) {}

  // `line` without its `end`. `number` counts the lines of the whole run from 0, `seq` is the number of its event.
  void append(std::string_view line, std::uint64_t number, std::uint64_t seq, std::string_view end = "\n");

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t cost() const { return cost_; }

  struct Part {
    std::string head;  // everything where nothing is left out
    std::string tail;
    std::uint64_t left_out_bytes = 0;
    std::uint64_t left_out_lines = 0;
    OutputPosition next;  // behind the head
  };
  // As much as fits.
  Part fit(Room room) const;

 private:
  struct Mark {
    std::size_t end;  // of the line in head_, behind its line feed
    std::uint64_t number, seq;
  };
  OutputPosition position(std::size_t offset) const;

  const std::size_t keep_;
  std::string head_;  // the first bytes, up to keep_ and the rest of a line
  std::vector<Mark> marks_;
  std::string tail_;  // the last bytes: keep_ of them, or up to twice as many
  std::uint64_t bytes_ = 0, cost_ = 0, lines_ = 0;
};

// Divides room between two streams: all to both if there is enough, else each gets at least half or what it needs.
std::pair<std::size_t, std::size_t> share(std::uint64_t first, std::uint64_t second, std::size_t room);

}  // namespace osb::mcp
