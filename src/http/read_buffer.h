#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

namespace osb::http {

// Bytes received and not yet used, contiguous. Small at first, larger once a body streams through, and given back when
// a connection goes idle, so that thousands of idle connections cost little.
class ReadBuffer {
 public:
  static constexpr std::size_t kSmall = 4 * 1024;
  static constexpr std::size_t kLarge = 256 * 1024;

  std::string_view data() const { return {bytes_.get() + begin_, end_ - begin_}; }
  bool empty() const { return begin_ == end_; }
  std::size_t size() const { return end_ - begin_; }

  void consume(std::size_t n) {
    begin_ += n;
    if (begin_ == end_) begin_ = end_ = 0;
  }

  // Room to receive into; grows when full, up to `limit`. Empty: the limit is reached. Invalidates data().
  std::span<char> room(std::size_t limit) {
    if (end_ == capacity_ && begin_ > 0) compact();
    // Full, or filled to the brim by the last read: more is coming than we have room for.
    if (end_ == capacity_ || filled_) grow(std::min(limit, std::max(kSmall, capacity_ * 4)));
    return {bytes_.get() + end_, capacity_ - end_};
  }
  void received(std::size_t n) {
    end_ += n;
    filled_ = end_ == capacity_;
  }

  // An idle connection keeps at most a small buffer.
  void shrink() {
    if (empty() && capacity_ > kSmall) {
      bytes_.reset();
      capacity_ = begin_ = end_ = 0;
      filled_ = false;
    }
  }

 private:
  void compact() {
    std::memmove(bytes_.get(), bytes_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  void grow(std::size_t capacity) {
    if (capacity <= capacity_) return;
    auto bigger = std::make_unique_for_overwrite<char[]>(capacity);
    if (end_ > begin_) std::memcpy(bigger.get(), bytes_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    bytes_ = std::move(bigger);
    capacity_ = capacity;
  }

  std::unique_ptr<char[]> bytes_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool filled_ = false;
};

}  // namespace osb::http
