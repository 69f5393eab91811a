#include "cli/transfer/transfer_progress.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace osb::cli {

std::string format_bytes(double bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string progress_line(const std::string& name, std::uint64_t done, std::optional<std::uint64_t> total,
                          std::chrono::duration<double> taken) {
  constexpr std::size_t kWidth = 20;
  std::string out = name + "  ";
  if (total && *total > 0) {
    const double part = std::min(1.0, static_cast<double>(done) / static_cast<double>(*total));
    const auto filled = static_cast<std::size_t>(part * kWidth);
    out += fmt::format("[{}{}]  {:3.0f}%  {} of {}", std::string(filled, '#'), std::string(kWidth - filled, '-'),
                       part * 100, format_bytes(static_cast<double>(done)), format_bytes(static_cast<double>(*total)));
  } else {
    out += format_bytes(static_cast<double>(done));
  }
  if (taken.count() > 0.1) out += fmt::format("  {}/s", format_bytes(static_cast<double>(done) / taken.count()));
  return out;
}

TransferBar::TransferBar(const Output& output, std::string name) : name_(std::move(name)), spinner_(output, name_) {}

void TransferBar::update(std::uint64_t done, std::optional<std::uint64_t> total) {
  const auto now = time_.elapsed();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  spinner_.update(progress_line(name_, done, total, now));
}

}  // namespace osb::cli
