#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "async/timer.h"

namespace osb::egress {

// The last audit lines of a sandbox's credential vault, for its API; the log keeps all of them. The oldest go when
// there are too many.
class AuditTrail {
 public:
  static constexpr std::size_t kMost = 1000;

  explicit AuditTrail(net::any_io_executor executor) : added_(std::move(executor)) {}

  // A JSON object.
  void add(std::string line) {
    lines_.push_back(std::move(line));
    ++last_;
    if (lines_.size() > kMost) lines_.pop_front();
    added_.notify_all();
  }

  // The lines after number `seen`, oldest first, and the number of the last one into `seen`.
  std::vector<std::string> since(std::uint64_t& seen) const {
    const std::uint64_t first = last_ - lines_.size();
    const std::uint64_t skip = seen > first ? seen - first : 0;
    seen = last_;
    return {lines_.begin() + static_cast<std::ptrdiff_t>(skip), lines_.end()};
  }

  // True: a line was added, or the sandbox has gone. False: cancelled.
  net::awaitable<bool> wait() { return added_.wait(); }
  // The sandbox has gone: streams end.
  void close() {
    closed_ = true;
    added_.notify_all();
  }
  bool closed() const { return closed_; }

 private:
  std::deque<std::string> lines_;
  std::uint64_t last_ = 0;  // how many lines there ever were
  bool closed_ = false;
  Notifier added_;
};

}  // namespace osb::egress
