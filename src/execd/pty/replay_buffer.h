#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace osb::execd {

// The newest bytes of an endless stream, addressed by their offset from its beginning. Memory grows with what is in it,
// up to the limit.
class ReplayBuffer {
 public:
  explicit ReplayBuffer(std::size_t limit = 1024 * 1024) : limit_(limit) {}

  void append(std::string_view bytes);
  std::uint64_t begin() const { return end_ - size_; }
  std::uint64_t end() const { return end_; }
  std::size_t memory_bytes() const { return ring_.capacity(); }

  // Appends all bytes from `offset` on, or from begin() where that is later, to `out`; nothing at or behind the end.
  void copy_since(std::uint64_t offset, std::string& out) const;

 private:
  const std::size_t limit_;
  std::vector<char> ring_;  // holds size_ bytes from first_ on, around the end
  std::size_t first_ = 0;
  std::size_t size_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace osb::execd
