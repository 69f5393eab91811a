// Texts of cgroup files, which a sandbox that sees its own cgroups partly chooses: membership, counters and limits.

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <unistd.h>

#include "kernel/cgroup_controller.h"
#include "sys/cgroup_stats.h"
#include "sys/cgroup_text.h"
#include "sys/syscall.h"

namespace {

using osb::kernel::CgroupController;

constexpr const char* kFiles[] = {"cgroup.procs",
                                  "cgroup.events",
                                  "cpu.stat",
                                  "cpu.max",
                                  "cpu.cfs_quota_us",
                                  "cpu.cfs_period_us",
                                  "memory.current",
                                  "memory.max",
                                  "memory.stat",
                                  "memory.events",
                                  "memory.oom_control",
                                  "memory.usage_in_bytes",
                                  "memory.peak",
                                  "memory.limit_in_bytes",
                                  "memory.max_usage_in_bytes",
                                  "pids.current",
                                  "io.stat",
                                  "blkio.throttle.io_service_bytes_recursive"};

// A cgroup whose files all hold the input.
class Directory {
 public:
  Directory() { std::filesystem::create_directories(path_); }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  const std::filesystem::path& fill(std::string_view text) const {
    for (const char* name : kFiles) std::ofstream(path_ / name, std::ios::binary | std::ios::trunc) << text;
    return path_;
  }

 private:
  std::filesystem::path path_ = std::filesystem::temp_directory_path() / ("cgroup_fuzz-" + std::to_string(::getpid()));
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Directory cgroup;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::filesystem::path& directory = cgroup.fill(text);

  for (const pid_t pid : osb::sys::parse_cgroup_pids(text)) {
    if (pid <= 0) std::abort();
  }
  (void)osb::sys::parse_cgroup_events(text);
  for (const auto kind : CgroupController::kKinds) {
    for (const auto dialect : {CgroupController::Dialect::V1, CgroupController::Dialect::V2}) {
      osb::kernel::CgroupUsage usage;
      CgroupController::make(kind, dialect)->read(directory, usage);
    }
  }

  // The same text says where our cgroups are and what is mounted; then its files are handed over instead.
  const osb::sys::CgroupSources sources{directory / "cgroup.procs", directory / "cgroup.events"};
  auto given = std::make_shared<osb::sys::CgroupFiles>();
  for (const char* name : kFiles) {
    if (auto file = osb::sys::open_at(AT_FDCWD, directory / name, O_RDONLY)) given->emplace(name, std::move(*file));
  }
  for (const bool handed_over : {false, true}) {
    const osb::sys::CgroupStats stats(sources, "/proc", handed_over ? given : nullptr);
    const double cpus = stats.cpu_count();
    if (!std::isfinite(cpus) || cpus <= 0) std::abort();
    const auto memory = stats.memory();
    if (memory.used_bytes > memory.total_bytes) std::abort();
    (void)stats.cpu_used();
    (void)stats.oom_kills();
  }
  return 0;
}
