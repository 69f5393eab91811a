#include "sys/cgroup_stats.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <sched.h>
#include <string_view>
#include <thread>
#include <unistd.h>

#include "base/clock.h"
#include "sys/proc_stats.h"
#include "sys/text_file.h"

namespace osb::sys {
namespace {

using Directory = CgroupDirectories::Directory;

// v1 writes "no limit" as the highest number of pages; no machine has this much.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;

// The kernel takes memory for a cgroup in steps: a full one can be this far from its limit.
constexpr std::uint64_t kChargeStep = 1 << 20;

template <typename T>
std::optional<T> parse(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

template <typename T>
std::optional<T> number_in(const std::optional<std::string>& text) {
  return text ? parse<T>(*text) : std::nullopt;
}

std::optional<std::string> read_file(const std::string& path) {
  auto text = read_text(path);
  if (!text) return std::nullopt;
  return std::move(*text);
}

template <typename T>
std::optional<T> read_number(const std::string& path) {
  return number_in<T>(read_file(path));
}

std::optional<std::uint64_t> value_of(const std::optional<std::string>& text, std::string_view key) {
  return text ? parse_cgroup_key(*text, key) : std::nullopt;
}

// Our directory, then its parents, to the mount point.
void for_each_level(const Directory& directory, const std::function<void(const std::string&)>& fn) {
  for (std::string path = directory.path;;) {
    fn(path);
    if (path.size() <= directory.mount.size()) return;
    path.resize(path.rfind('/'));
  }
}

const Directory* find(const CgroupDirectories& directories, std::string_view controller) {
  const auto it = directories.v1.find(controller);
  return it == directories.v1.end() ? nullptr : &it->second;
}

double usable_cpus() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return std::max(1U, std::thread::hardware_concurrency());  // more CPUs than a cpu_set_t holds
}

// The tightest memory limit and the directory that sets it; our own directory where there is none.
struct MemoryLimit {
  std::uint64_t bytes = kNoLimit;
  std::string directory;
};

MemoryLimit tightest(const Directory& directory, const char* file) {
  MemoryLimit limit{.directory = directory.path};
  for_each_level(directory, [&](const std::string& path) {
    const auto bytes = read_number<std::uint64_t>(path + file);  // v2's "max" is no number
    if (bytes && *bytes < limit.bytes) limit = {*bytes, path};
  });
  return limit;
}

}  // namespace

CgroupStats::CgroupStats(const CgroupSources& sources, std::string proc, std::shared_ptr<const CgroupFiles> given)
    : directories_(find_cgroups(sources)), proc_(std::move(proc)), given_(std::move(given)) {}

std::optional<std::string> CgroupStats::given(std::string_view name) const {
  if (!given_) return std::nullopt;
  const auto file = given_->find(name);
  if (file == given_->end()) return std::nullopt;
  auto text = read_text(file->second.get(), file->first);
  if (!text) return std::nullopt;
  return std::move(*text);
}

double CgroupStats::cpu_count() const {
  double cpus = usable_cpus();
  const auto apply = [&](std::optional<std::int64_t> quota, std::optional<std::int64_t> period) {
    if (!quota || !period || *quota <= 0 || *period <= 0) return;  // v1: -1 is no quota
    cpus = std::min(cpus, static_cast<double>(*quota) / static_cast<double>(*period));
  };
  const auto apply_v2 = [&](const std::optional<std::string>& text) {  // "50000 100000" or "max 100000"
    const std::size_t space = text ? text->find(' ') : std::string::npos;
    if (space == std::string::npos) return;
    apply(parse<std::int64_t>(*text), parse<std::int64_t>(std::string_view(*text).substr(space + 1)));
  };
  apply(number_in<std::int64_t>(given("cpu.cfs_quota_us")), number_in<std::int64_t>(given("cpu.cfs_period_us")));
  apply_v2(given("cpu.max"));
  if (const Directory* cpu = find(directories_, "cpu")) {
    for_each_level(*cpu, [&](const std::string& path) {
      apply(read_number<std::int64_t>(path + "/cpu.cfs_quota_us"),
            read_number<std::int64_t>(path + "/cpu.cfs_period_us"));
    });
  }
  if (directories_.v2) {
    for_each_level(*directories_.v2, [&](const std::string& path) { apply_v2(read_file(path + "/cpu.max")); });
  }
  return cpus;
}

std::optional<std::chrono::nanoseconds> CgroupStats::cpu_used() const {
  auto usec = value_of(given("cpu.stat"), "usage_usec");
  if (const Directory* cpuacct = find(directories_, "cpuacct"); cpuacct != nullptr && !usec) {
    if (const auto ns = read_number<std::int64_t>(cpuacct->path + "/cpuacct.usage")) {
      return std::chrono::nanoseconds(*ns);
    }
  }
  if (!usec && directories_.v2) usec = value_of(read_file(directories_.v2->path + "/cpu.stat"), "usage_usec");
  if (!usec) return std::nullopt;
  return std::chrono::microseconds(static_cast<std::int64_t>(*usec));
}

CgroupStats::Memory CgroupStats::memory() const {
  const auto host = host_memory(proc_).value_or(HostMemory{});
  MemoryLimit limit;
  std::optional<std::uint64_t> inactive;
  // v1's names, then v2's.
  auto used = number_in<std::uint64_t>(given("memory.usage_in_bytes"));
  if (used) {
    limit.bytes = number_in<std::uint64_t>(given("memory.limit_in_bytes")).value_or(kNoLimit);
    inactive = value_of(given("memory.stat"), "total_inactive_file");
  } else if (const auto current = number_in<std::uint64_t>(given("memory.current"))) {
    used = current;
    limit.bytes = number_in<std::uint64_t>(given("memory.max")).value_or(kNoLimit);
    inactive = value_of(given("memory.stat"), "inactive_file");
  } else if (const Directory* memory = find(directories_, "memory")) {
    limit = tightest(*memory, "/memory.limit_in_bytes");
    used = read_number<std::uint64_t>(limit.directory + "/memory.usage_in_bytes");
    inactive = value_of(read_file(limit.directory + "/memory.stat"), "total_inactive_file");
  } else if (directories_.v2) {
    limit = tightest(*directories_.v2, "/memory.max");
    used = read_number<std::uint64_t>(limit.directory + "/memory.current");
    inactive = value_of(read_file(limit.directory + "/memory.stat"), "inactive_file");
  }
  if (!used) return {host.total_bytes, std::min(host.used_bytes, host.total_bytes), false};
  const bool limited = limit.bytes < kNoLimit;
  std::uint64_t total = host.total_bytes;
  if (limited) total = total == 0 ? limit.bytes : std::min(limit.bytes, total);
  const std::uint64_t held = *used - std::min(inactive.value_or(0), *used);
  return {total, std::min(held, total), limited};
}

std::optional<std::uint64_t> CgroupStats::oom_kills() const {
  for (const char* name : {"memory.oom_control", "memory.events"}) {
    if (const auto kills = value_of(given(name), "oom_kill")) return kills;
  }
  if (const Directory* memory = find(directories_, "memory")) {
    return value_of(read_file(memory->path + "/memory.oom_control"), "oom_kill");
  }
  if (directories_.v2) return value_of(read_file(directories_.v2->path + "/memory.events"), "oom_kill");
  return std::nullopt;
}

std::optional<std::uint64_t> CgroupStats::limit_hits() const {
  if (const auto hits = value_of(given("memory.events"), "oom")) return hits;
  if (find(directories_, "memory") != nullptr || !directories_.v2) return std::nullopt;
  return value_of(read_file(directories_.v2->path + "/memory.events"), "oom");
}

std::optional<bool> CgroupStats::peak_was_limit() const {
  const Directory* memory = find(directories_, "memory");
  if (memory == nullptr) return std::nullopt;
  const auto peak = read_number<std::uint64_t>(memory->path + "/memory.max_usage_in_bytes");
  const auto limit = read_number<std::uint64_t>(memory->path + "/memory.limit_in_bytes");
  if (!peak || !limit) return std::nullopt;
  return *peak + kChargeStep >= *limit;
}

CpuMeter::CpuMeter(const CgroupStats& stats, std::string proc)
    : stats_(stats), proc_(std::move(proc)), last_(sample()) {}

CpuMeter::Sample CpuMeter::sample() const {
  if (const auto used = stats_.cpu_used()) {
    const auto now = system_clock().steady_now().time_since_epoch();
    return {std::chrono::duration<double>(*used).count(), std::chrono::duration<double>(now).count(),
            stats_.cpu_count()};
  }
  const auto host = host_cpu_time(proc_).value_or(HostCpuTime{});
  const double ticks = static_cast<double>(std::max(1L, ::sysconf(_SC_CLK_TCK)));
  // The total is a sum over all CPUs, idle time included.
  return {static_cast<double>(host.busy) / ticks, static_cast<double>(host.total) / ticks, 1};
}

double CpuMeter::percent() {
  const Sample now = sample();
  const double possible = (now.elapsed - last_.elapsed) * now.cpus;
  if (possible <= 0) return last_percent_;  // two questions within a clock tick: nothing new to say
  last_percent_ = std::clamp(100.0 * (now.used - last_.used) / possible, 0.0, 100.0);
  last_ = now;
  return last_percent_;
}

}  // namespace osb::sys
