#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

#include "base/unique_fd.h"

namespace osb::egress {

// Memory and processor time of this process. Its file is opened at once: a confined process opens none later.
class ProcessUsage {
 public:
  ProcessUsage();

  std::uint64_t resident_bytes() const;  // 0: unknown
  // Of one processor since the last call, from 0 to 1.
  double utilization();

 private:
  UniqueFd statm_;
  std::uint64_t page_ = 4096;
  std::chrono::nanoseconds used_{0};
  std::chrono::steady_clock::time_point at_;
};

}  // namespace osb::egress
