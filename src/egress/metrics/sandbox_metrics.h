#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>

#include "otlp/metric_document.h"

namespace osb::egress {

// The counters of one sandbox, since this process knows it.
struct SandboxMetrics {
  std::uint64_t denied = 0;                         // questions
  std::uint64_t updates = 0;                        // of the kernel's tables
  std::unique_ptr<otlp::Histogram> durations = {};  // of allowed questions; made by the first one

  void answered(std::chrono::nanoseconds took) {
    if (!durations) durations = std::make_unique<otlp::Histogram>(kSeconds);
    durations->add(std::chrono::duration<double>(took).count());
  }

 private:
  static constexpr std::array<double, 16> kSeconds = {0.0001, 0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.075,
                                                      0.1,    0.25,   0.5,   0.75,  1,    2.5,   5,    10};
};

}  // namespace osb::egress
