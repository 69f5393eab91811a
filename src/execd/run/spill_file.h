#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace osb::execd {

// Where event blocks go that the memory ring has no room for: one unnamed file used in a circle, created with the first
// block. The newest `limit` bytes are kept; a block that is overwritten is forgotten. A file that cannot be created or
// written just keeps nothing: losing old events is reported to readers as a gap, it never stops a command.
class SpillFile {
 public:
  struct Block {
    std::uint64_t first_seq;
    std::uint64_t last_seq;
    std::uint64_t start;  // in the file
    std::size_t size;
  };

  SpillFile(std::string directory, std::uint64_t limit) : directory_(std::move(directory)), limit_(limit) {}

  void write(std::uint64_t first_seq, std::uint64_t last_seq, std::string_view bytes);
  // The oldest kept block that holds `seq` or a later event, or nullptr. Invalid after the next write().
  const Block* find(std::uint64_t seq) const;
  // False if the file gives no such bytes any more.
  bool read(const Block& block, std::string& into) const;
  // Frees the file.
  void clear();
  std::uint64_t file_bytes() const { return high_; }

 private:
  const std::string directory_;
  const std::uint64_t limit_;
  UniqueFd file_;
  bool broken_ = false;
  std::deque<Block> blocks_;  // in order of their numbers; the file order is the same, wrapped once
  std::uint64_t next_ = 0;    // where the next block goes
  std::uint64_t high_ = 0;    // the file's size
};

}  // namespace osb::execd
