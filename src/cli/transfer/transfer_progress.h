#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/stopwatch.h"
#include "cli/output/spinner.h"

namespace osb::cli {

// "1.0 GiB"
std::string format_bytes(double bytes);

// "big.bin  [#####-----]  50%  512.0 MiB of 1.0 GiB  310.0 MiB/s"; without a total what is known.
std::string progress_line(const std::string& name, std::uint64_t done, std::optional<std::uint64_t> total,
                          std::chrono::duration<double> taken);

// A bar on the terminal for one transfer, from half a second on.
class TransferBar {
 public:
  TransferBar(const Output& output, std::string name);
  // May be called for every piece: the text is made ten times a second at most.
  void update(std::uint64_t done, std::optional<std::uint64_t> total);
  auto callback() {
    return [this](std::uint64_t done, std::optional<std::uint64_t> total) { update(done, total); };
  }

 private:
  std::string name_;
  Stopwatch time_;
  std::chrono::nanoseconds next_{0};
  Spinner spinner_;
};

}  // namespace osb::cli
