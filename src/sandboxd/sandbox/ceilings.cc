#include "sandboxd/sandbox/ceilings.h"

#include <algorithm>
#include <filesystem>
#include <sched.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/parse_number.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

std::uint64_t read_number(const char* path, std::uint64_t fallback) {
  auto text = sys::read_text(path);
  if (!text) return fallback;
  while (text->ends_with('\n')) text->pop_back();
  return parse_number<std::uint64_t>(*text).value_or(fallback);
}

std::uint64_t count_cpus() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<std::uint64_t>(CPU_COUNT(&set));
  return static_cast<std::uint64_t>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L));
}

std::uint64_t disk_size(std::filesystem::path path) {
  struct statvfs disk{};
  while (::statvfs(path.c_str(), &disk) < 0) {
    if (!path.has_relative_path()) return 0;
    path = path.parent_path();
  }
  return std::uint64_t{disk.f_blocks} * disk.f_frsize;
}

// io_bytes_per_second stands for both rates in bytes.
Result<void> apply_io(api::native::Limits& wanted, const Ceilings& ceilings) {
  std::optional<std::uint64_t>* const fields[] = {&wanted.io_read_bps, &wanted.io_write_bps, &wanted.io_read_iops,
                                                  &wanted.io_write_iops};
  for (std::size_t i = 0; i < config::kIoRates.size(); ++i) {
    const config::IoRate& kind = config::kIoRates[i];
    if (kind.bytes && !*fields[i]) *fields[i] = wanted.io_bytes_per_second;
    const auto rate = config::io_rate(kind, *fields[i], ceilings, "[sandbox] {} of sandboxd");
    if (!rate) return Failure(rate.error());
    *fields[i] = *rate;
  }
  return {};
}

void give(std::optional<std::uint64_t>& limit, std::int64_t amount) {
  if (!limit && amount > 0) limit = static_cast<std::uint64_t>(amount);
}

}  // namespace

config::MachineSize measure_machine(const std::string& state_directory) {
  config::MachineSize out;
  struct sysinfo info{};
  if (::sysinfo(&info) == 0) out.memory_bytes = std::uint64_t{info.totalram} * info.mem_unit;
  out.cpus = std::max<std::uint64_t>(count_cpus(), 1);
  out.pids =
      std::min(read_number("/proc/sys/kernel/pid_max", 32768), read_number("/proc/sys/kernel/threads-max", 32768));
  out.disk_bytes = disk_size(state_directory);
  return out;
}

Result<void> apply_ceilings(api::native::Limits& wanted, const Ceilings& c) {
  // 0 is never above a maximum.
  auto ok = config::check_bytes("memory", wanted.memory_bytes.value_or(0), c.max_memory_bytes,
                                "[sandbox] max_memory_bytes of sandboxd");
  if (ok) {
    ok = config::check_number("cpu", wanted.cpu_millis.value_or(0), c.max_cpu_millis,
                              "[sandbox] max_cpu_millis of sandboxd", "m");
  }
  if (ok) ok = config::check_number("pids", wanted.pids.value_or(0), c.max_pids, "[sandbox] max_pids of sandboxd");
  if (ok) {
    ok = config::check_bytes("disk", wanted.disk_bytes.value_or(0), c.max_disk_bytes,
                             "[sandbox] max_disk_bytes of sandboxd");
  }
  if (!ok) return ok;
  give(wanted.memory_bytes, c.default_memory_bytes);
  give(wanted.cpu_millis, c.default_cpu_millis);
  return apply_io(wanted, c);
}

kernel::Limits parent_limits(const Ceilings& ceilings) {
  kernel::Limits out;
  if (ceilings.total_memory_bytes > 0) out.memory_bytes = static_cast<std::uint64_t>(ceilings.total_memory_bytes);
  if (ceilings.total_pids > 0) out.pids = static_cast<std::uint64_t>(ceilings.total_pids);
  return out;
}

}  // namespace osb::sandboxd
