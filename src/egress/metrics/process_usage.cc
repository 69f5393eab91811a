#include "egress/metrics/process_usage.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse_number.h"

namespace osb::egress {
namespace {

std::chrono::nanoseconds processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

ProcessUsage::ProcessUsage()
    : statm_(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC)),
      page_(static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))),
      used_(processor_time()),
      at_(system_clock().steady_now()) {}

std::uint64_t ProcessUsage::resident_bytes() const {
  if (statm_.get() < 0) return 0;
  std::array<char, 128> text;
  if (::lseek(statm_.get(), 0, SEEK_SET) < 0) return 0;
  const ssize_t size = ::read(statm_.get(), text.data(), text.size());
  if (size <= 0) return 0;
  // "total resident shared ..." in pages
  std::string_view rest(text.data(), static_cast<std::size_t>(size));
  rest.remove_prefix(std::min(rest.find(' ') + 1, rest.size()));
  return parse_number<std::uint64_t>(rest.substr(0, rest.find(' '))).value_or(0) * page_;
}

double ProcessUsage::utilization() {
  const auto used = processor_time();
  const auto now = system_clock().steady_now();
  const std::chrono::duration<double> worked = used - used_, passed = now - at_;
  used_ = used;
  at_ = now;
  return passed.count() > 0 ? std::clamp(worked / passed, 0.0, 1.0) : 0;
}

}  // namespace osb::egress
