#include "execd/pty/replay_buffer.h"

#include <algorithm>
#include <cstring>

namespace osb::execd {

void ReplayBuffer::append(std::string_view bytes) {
  end_ += bytes.size();
  if (bytes.size() > limit_) bytes.remove_prefix(bytes.size() - limit_);
  if (bytes.empty()) return;
  const std::size_t wanted = std::min(limit_, size_ + bytes.size());
  if (wanted > ring_.size()) {
    // Not full before, so nothing has gone around the end yet. Doubling bounds the copying.
    std::vector<char> larger(std::min(limit_, std::max({wanted, ring_.size() * 2, std::size_t{1024}})));
    if (size_ > 0) std::memcpy(larger.data(), ring_.data(), size_);
    ring_ = std::move(larger);
  }
  if (size_ + bytes.size() > ring_.size()) {
    const std::size_t gone = size_ + bytes.size() - ring_.size();
    first_ = (first_ + gone) % ring_.size();
    size_ -= gone;
  }
  const std::size_t at = (first_ + size_) % ring_.size();
  const std::size_t before_end = std::min(bytes.size(), ring_.size() - at);
  std::memcpy(ring_.data() + at, bytes.data(), before_end);
  std::memcpy(ring_.data(), bytes.data() + before_end, bytes.size() - before_end);
  size_ += bytes.size();
}

void ReplayBuffer::copy_since(std::uint64_t offset, std::string& out) const {
  offset = std::max(offset, begin());
  if (offset >= end_) return;
  const std::size_t count = static_cast<std::size_t>(end_ - offset);
  const std::size_t at = (first_ + size_ - count) % ring_.size();
  const std::size_t before_end = std::min(count, ring_.size() - at);
  out.append(ring_.data() + at, before_end);
  out.append(ring_.data(), count - before_end);
}

}  // namespace osb::execd
