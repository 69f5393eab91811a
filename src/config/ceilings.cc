#include "config/ceilings.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/out_of_memory.h"

namespace osb::config {
namespace {

constexpr std::int64_t kMiB = 1 << 20, kGiB = 1 << 30;
constexpr std::int64_t kLeastReserve = 256 * kMiB, kMostReserve = 8 * kGiB;
constexpr std::int64_t kSdkMemory = 2 * kGiB;  // resourceLimits of a create in the official SDKs

void derive(std::int64_t& setting, std::int64_t derived) {
  if (setting < 0) setting = derived;
}

// The smaller of two limits, of which 0 is none.
std::int64_t least(std::int64_t a, std::int64_t b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

// At least 1, unless there is no limit.
std::int64_t quotient(std::int64_t limit, std::uint64_t each) {
  return limit == 0 ? 0 : std::max(limit / static_cast<std::int64_t>(each), std::int64_t{1});
}

struct Amount {
  const char* name;
  std::int64_t value;
};

Result<void> ordered(std::string_view section, const Amount& low, const Amount& high) {
  if (high.value == 0 || (low.value != 0 && low.value <= high.value)) return {};
  return fail(Code::InvalidRequest, fmt::format("[{}] {} = {}{} is above {} = {}", section, low.name, low.value,
                                                low.value == 0 ? " (no limit)" : "", high.name, high.value));
}

Failure above(std::string_view limit, const std::string& asked, const std::string& most, std::string_view setting) {
  return fail(Code::InvalidRequest, fmt::format("/resourceLimits/{}: {} is asked for, at most {} is allowed ({})",
                                                limit, asked, most, setting));
}

bool exceeds(std::uint64_t asked, std::int64_t most) { return most > 0 && asked > static_cast<std::uint64_t>(most); }

}  // namespace

std::string IoRate::about_default() const {
  return fmt::format("`{}` of a sandbox whose request sets none. 0: `{}`.", limit, max_setting());
}

std::string IoRate::about_max() const {
  return fmt::format("`{}` that a request may ask for, in {} per second. 0: no limit.", limit,
                     bytes ? "bytes" : "operations");
}

Result<Ceilings> derive_ceilings(Ceilings c, const MachineSize& machine, std::string_view section) {
  const auto memory = static_cast<std::int64_t>(machine.memory_bytes);
  const auto cpus = static_cast<std::int64_t>(machine.cpus), pids = static_cast<std::int64_t>(machine.pids);
  // A machine of less than twice the reserve gives half of its memory.
  const std::int64_t reserve = std::min(std::clamp(memory / 10, kLeastReserve, kMostReserve), memory / 2);
  derive(c.total_memory_bytes, memory - reserve);
  derive(c.max_memory_bytes, c.total_memory_bytes == 0 ? 0 : std::max(c.total_memory_bytes, kSdkMemory));
  derive(c.default_memory_bytes, least(c.total_memory_bytes / 2, c.max_memory_bytes));
  derive(c.max_cpu_millis, cpus * 1000);
  derive(c.default_cpu_millis, least(std::max(cpus / 2, std::min(cpus, std::int64_t{2})) * 1000, c.max_cpu_millis));
  derive(c.total_pids, pids / 4 * 3);
  derive(c.max_pids, c.total_pids / 2);
  derive(c.max_disk_bytes, static_cast<std::int64_t>(std::min<std::uint64_t>(machine.disk_bytes, INT64_MAX)));
  const std::int64_t by_memory = quotient(c.total_memory_bytes, machine.memory_per_sandbox);
  const std::int64_t by_pids = quotient(c.total_pids, machine.pids_per_sandbox);
  derive(c.max_sandboxes, least(least(by_memory, by_pids), static_cast<std::int64_t>(machine.network_slots)));
  const std::pair<Amount, Amount> pairs[] = {
      {{"default_memory_bytes", c.default_memory_bytes}, {"max_memory_bytes", c.max_memory_bytes}},
      {{"default_cpu_millis", c.default_cpu_millis}, {"max_cpu_millis", c.max_cpu_millis}}};
  for (const auto& [low, high] : pairs) {
    if (auto ok = ordered(section, low, high); !ok) return Failure(ok.error());
  }
  for (const IoRate& kind : kIoRates) {
    const std::int64_t rate = c.default_io.*kind.field, most = c.max_io.*kind.field;
    if (rate <= most || most == 0) continue;
    return fail(Code::InvalidRequest, fmt::format("[{}] {} = {} is above {} = {}", section, kind.default_setting(),
                                                  rate, kind.max_setting(), most));
  }
  return c;
}

Result<std::optional<std::uint64_t>> io_rate(const IoRate& kind, std::optional<std::uint64_t> asked,
                                             const Ceilings& ceilings, std::string_view where) {
  const std::int64_t most = ceilings.max_io.*kind.field, fallback = ceilings.default_io.*kind.field;
  if (asked) {
    const std::string setting = fmt::format(fmt::runtime(where), kind.max_setting());
    const auto ok =
        kind.bytes ? check_bytes(kind.limit, *asked, most, setting) : check_number(kind.limit, *asked, most, setting);
    if (!ok) return Failure(ok.error());
    return asked;
  }
  if (const std::int64_t rate = fallback != 0 ? fallback : most; rate != 0) return static_cast<std::uint64_t>(rate);
  return std::nullopt;
}

Result<void> check_bytes(std::string_view limit, std::uint64_t asked, std::int64_t most, std::string_view setting) {
  if (!exceeds(asked, most)) return {};
  return above(limit, format_binary_size(asked), format_binary_size(static_cast<std::uint64_t>(most)), setting);
}

Result<void> check_number(std::string_view limit, std::uint64_t asked, std::int64_t most, std::string_view setting,
                          std::string_view unit) {
  if (!exceeds(asked, most)) return {};
  return above(limit, fmt::format("{}{}", asked, unit), fmt::format("{}{}", most, unit), setting);
}

}  // namespace osb::config
