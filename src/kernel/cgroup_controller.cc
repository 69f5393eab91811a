#include "kernel/cgroup_controller.h"

#include <sys/sysmacros.h>
#include <unistd.h>

#include <fmt/format.h>

#include "sys/cgroup_text.h"
#include "sys/text_file.h"

namespace osb::kernel {
namespace {

using Dialect = CgroupController::Dialect;
using Kind = CgroupController::Kind;
using Number = std::optional<std::uint64_t>;

constexpr std::uint64_t kCpuPeriodUsec = 100'000;
constexpr std::uint64_t kNoLimitV1 = std::uint64_t{1} << 62;  // v1 answers a huge number of pages for "none"

Number read_number(const std::string& path) {
  const auto text = sys::read_text(path);
  return text ? sys::parse_cgroup_number(*text) : std::nullopt;
}

Number read_key(const std::string& path, std::string_view key) {
  const auto text = sys::read_text(path);
  return text ? sys::parse_cgroup_key(*text, key) : std::nullopt;
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// `limit` says what was asked for: "memory limit of 5 bytes".
Result<void> set(const std::string& path, const std::string& value, const std::string& limit) {
  auto written = sys::write_text(path, value);
  if (written) return {};
  Error error = written.error();
  switch (error.sys_errno) {
    case EINVAL:
    case ERANGE:
    case EOVERFLOW:
    case ENODEV:
      error.code = Code::InvalidRequest;
      break;
    case EBUSY:
      error.code = Code::Conflict;
      break;
    case ENOENT:
      error.code = Code::Unsupported;
      break;
    default:
      break;
  }
  return with_context(limit, std::move(error));
}

std::string memory_limit(std::uint64_t bytes) { return fmt::format("memory limit of {} bytes", bytes); }

class MemoryV1 final : public CgroupController {
 public:
  Result<void> apply(const std::string& directory, const Limits& limits) const override {
    if (!limits.memory_bytes) return {};
    const std::string what = memory_limit(*limits.memory_bytes), value = std::to_string(*limits.memory_bytes);
    const std::string memory = directory + "/memory.limit_in_bytes", both = directory + "/memory.memsw.limit_in_bytes";
    // The kernel keeps memory <= memory + swap at every moment, so which of them comes first depends on the direction.
    auto done = set(memory, value, what);
    if (!exists(both)) {
      if (done) (void)sys::write_text(directory + "/memory.swappiness", "0");  // the next best thing
      return done;
    }
    if (!done && done.error().sys_errno == EINVAL) {
      if (auto raised = set(both, value, what); !raised) return raised;
      return set(memory, value, what);
    }
    return done ? set(both, value, what) : done;
  }
  Result<void> lift(const std::string& directory) const override {
    const std::string both = directory + "/memory.memsw.limit_in_bytes";
    if (exists(both)) {
      if (auto done = set(both, "-1", "no memory limit"); !done) return done;
    }
    return set(directory + "/memory.limit_in_bytes", "-1", "no memory limit");
  }
  void read(const std::string& directory, CgroupUsage& usage) const override {
    usage.memory_bytes = read_number(directory + "/memory.usage_in_bytes");
    usage.memory_peak_bytes = read_number(directory + "/memory.max_usage_in_bytes");
    usage.memory_limit_bytes = read_number(directory + "/memory.limit_in_bytes");
    if (usage.memory_limit_bytes.value_or(0) > kNoLimitV1) usage.memory_limit_bytes.reset();
    usage.oom_kills = read_key(directory + "/memory.oom_control", "oom_kill").value_or(0);
  }
  bool can_limit(const std::string& parent) const override { return exists(parent + "/memory.limit_in_bytes"); }
};

class MemoryV2 final : public CgroupController {
 public:
  Result<void> apply(const std::string& directory, const Limits& limits) const override {
    if (!limits.memory_bytes) return {};
    const std::string what = memory_limit(*limits.memory_bytes), value = std::to_string(*limits.memory_bytes);
    // memory.max kills to get below; memory.high only gives back what can be given back.
    const std::string high = directory + "/memory.high";
    if (read_number(directory + "/memory.current").value_or(0) > *limits.memory_bytes) {
      if (auto set_high = set(high, value, what); !set_high) return set_high;
      const bool fits = read_number(directory + "/memory.current").value_or(0) <= *limits.memory_bytes;
      (void)sys::write_text(high, "max");
      if (!fits) return fail(Code::Conflict, what + ": more is in use");
    }
    if (auto done = set(directory + "/memory.max", value, what); !done) return done;
    const std::string swap = directory + "/memory.swap.max";
    return exists(swap) ? set(swap, "0", what) : Result<void>();
  }
  Result<void> lift(const std::string& directory) const override {
    if (const std::string swap = directory + "/memory.swap.max"; exists(swap)) {
      if (auto done = set(swap, "max", "no memory limit"); !done) return done;
    }
    return set(directory + "/memory.max", "max", "no memory limit");
  }
  void read(const std::string& directory, CgroupUsage& usage) const override {
    usage.memory_bytes = read_number(directory + "/memory.current");
    usage.memory_peak_bytes = read_number(directory + "/memory.peak");
    usage.memory_limit_bytes = read_number(directory + "/memory.max");
    usage.oom_kills = read_key(directory + "/memory.events", "oom_kill").value_or(0);
    usage.memory_limit_hits = read_key(directory + "/memory.events", "oom");
  }
  bool can_limit(const std::string& parent) const override { return exists(parent + "/memory.max"); }
};

std::string cpu_limit(std::uint64_t millis) { return fmt::format("cpu limit of {} millis", millis); }

std::string cpu_quota(std::uint64_t millis) { return std::to_string(millis * (kCpuPeriodUsec / 1000)); }

class CpuV1 final : public CgroupController {
 public:
  Result<void> apply(const std::string& directory, const Limits& limits) const override {
    if (!limits.cpu_millis) return {};  // the period is 100 ms unless another program changed it
    return set(directory + "/cpu.cfs_quota_us", cpu_quota(*limits.cpu_millis), cpu_limit(*limits.cpu_millis));
  }
  Result<void> lift(const std::string& directory) const override {
    return set(directory + "/cpu.cfs_quota_us", "-1", "no cpu limit");
  }
  void read(const std::string&, CgroupUsage&) const override {}  // the v2 directory counts time
  bool can_limit(const std::string& parent) const override { return exists(parent + "/cpu.cfs_quota_us"); }
};

class CpuV2 final : public CgroupController {
 public:
  Result<void> apply(const std::string& directory, const Limits& limits) const override {
    if (!limits.cpu_millis) return {};
    return set(directory + "/cpu.max", fmt::format("{} {}", cpu_quota(*limits.cpu_millis), kCpuPeriodUsec),
               cpu_limit(*limits.cpu_millis));
  }
  Result<void> lift(const std::string& directory) const override {
    return set(directory + "/cpu.max", "max", "no cpu limit");
  }
  void read(const std::string&, CgroupUsage&) const override {}
  bool can_limit(const std::string& parent) const override { return exists(parent + "/cpu.max"); }
};

class Pids final : public CgroupController {  // the same files in both
 public:
  Result<void> apply(const std::string& directory, const Limits& limits) const override {
    if (!limits.pids) return {};
    return set(directory + "/pids.max", std::to_string(*limits.pids), fmt::format("pids limit of {}", *limits.pids));
  }
  Result<void> lift(const std::string& directory) const override {
    return set(directory + "/pids.max", "max", "no pids limit");
  }
  void read(const std::string& directory, CgroupUsage& usage) const override {
    usage.pids = read_number(directory + "/pids.current");
  }
  // A v1 hierarchy's top has no pids.max, but `parent` is below it.
  bool can_limit(const std::string& parent) const override { return exists(parent + "/pids.max"); }
};

std::string device_name(dev_t device) { return fmt::format("{}:{}", major(device), minor(device)); }

std::string io_limit(dev_t device) { return "io limit of device " + device_name(device); }

class IoV1 final : public CgroupController {
 public:
  Result<void> apply(const std::string& directory, const Limits& limits) const override {
    if (!limits.io) return {};
    const auto one = [&](const char* file, const Number& value) -> Result<void> {
      if (!value) return {};
      return set(directory + file, fmt::format("{} {}", device_name(limits.io->device), *value),
                 io_limit(limits.io->device));
    };
    if (auto done = one("/blkio.throttle.read_bps_device", limits.io->read_bytes_per_second); !done) return done;
    if (auto done = one("/blkio.throttle.write_bps_device", limits.io->write_bytes_per_second); !done) return done;
    if (auto done = one("/blkio.throttle.read_iops_device", limits.io->reads_per_second); !done) return done;
    return one("/blkio.throttle.write_iops_device", limits.io->writes_per_second);
  }
  Result<void> lift(const std::string&) const override { return {}; }  // per disk: no cgroup of all has one
  void read(const std::string& directory, CgroupUsage& usage) const override {
    const auto text = sys::read_text(directory + "/blkio.throttle.io_service_bytes_recursive");  // "8:0 Read 4096"
    if (!text) return;
    std::uint64_t read = 0, written = 0;
    sys::for_each_line(*text, [&](std::string_view line) {
      const std::size_t number = line.rfind(' ');
      if (number == std::string_view::npos) return;
      const std::uint64_t bytes = sys::parse_cgroup_number(line.substr(number + 1)).value_or(0);
      if (line.substr(0, number).ends_with(" Read")) read += bytes;
      if (line.substr(0, number).ends_with(" Write")) written += bytes;
    });
    usage.io_read_bytes = read;
    usage.io_write_bytes = written;
  }
  bool can_limit(const std::string& parent) const override {
    return exists(parent + "/blkio.throttle.read_bps_device");
  }
};

class IoV2 final : public CgroupController {
 public:
  Result<void> apply(const std::string& directory, const Limits& limits) const override {
    if (!limits.io) return {};
    std::string line = device_name(limits.io->device);
    if (limits.io->read_bytes_per_second) line += fmt::format(" rbps={}", *limits.io->read_bytes_per_second);
    if (limits.io->write_bytes_per_second) line += fmt::format(" wbps={}", *limits.io->write_bytes_per_second);
    if (limits.io->reads_per_second) line += fmt::format(" riops={}", *limits.io->reads_per_second);
    if (limits.io->writes_per_second) line += fmt::format(" wiops={}", *limits.io->writes_per_second);
    return set(directory + "/io.max", line, io_limit(limits.io->device));
  }
  Result<void> lift(const std::string&) const override { return {}; }
  void read(const std::string& directory, CgroupUsage& usage) const override {
    const auto text = sys::read_text(directory + "/io.stat");  // "8:0 rbytes=1 wbytes=2 rios=..", a line per device
    if (!text) return;
    const auto sum = [&](std::string_view key) {
      std::uint64_t total = 0;
      for (std::size_t at = 0; (at = text->find(key, at)) != std::string::npos;) {
        at += key.size();
        total += sys::parse_cgroup_number(std::string_view(*text).substr(at, text->find_first_of(" \n", at) - at))
                     .value_or(0);
      }
      return total;
    };
    usage.io_read_bytes = sum(" rbytes=");
    usage.io_write_bytes = sum(" wbytes=");
  }
  bool can_limit(const std::string& parent) const override { return exists(parent + "/io.max"); }
};

}  // namespace

std::unique_ptr<CgroupController> CgroupController::make(Kind kind, Dialect dialect) {
  const bool v2 = dialect == Dialect::V2;
  switch (kind) {
    case Kind::Memory:
      if (v2) return std::make_unique<MemoryV2>();
      return std::make_unique<MemoryV1>();
    case Kind::Cpu:
      if (v2) return std::make_unique<CpuV2>();
      return std::make_unique<CpuV1>();
    case Kind::Pids:
      return std::make_unique<Pids>();
    case Kind::Io:
      break;
  }
  if (v2) return std::make_unique<IoV2>();
  return std::make_unique<IoV1>();
}

std::string_view CgroupController::name(Kind kind, Dialect dialect) {
  switch (kind) {
    case Kind::Memory:
      return "memory";
    case Kind::Cpu:
      return "cpu";
    case Kind::Pids:
      return "pids";
    case Kind::Io:
      break;
  }
  return dialect == Dialect::V2 ? "io" : "blkio";
}

std::span<const char* const> CgroupController::stat_files(Kind kind, Dialect dialect) {
  static constexpr const char* kMemoryV1[] = {"memory.usage_in_bytes", "memory.limit_in_bytes", "memory.stat",
                                              "memory.oom_control"};
  static constexpr const char* kMemoryV2[] = {"memory.current", "memory.max", "memory.stat", "memory.events"};
  static constexpr const char* kCpuV1[] = {"cpu.cfs_quota_us", "cpu.cfs_period_us"};
  static constexpr const char* kCpuV2[] = {"cpu.max"};
  const bool v2 = dialect == Dialect::V2;
  if (kind == Kind::Memory) return v2 ? std::span<const char* const>(kMemoryV2) : kMemoryV1;
  if (kind == Kind::Cpu) return v2 ? std::span<const char* const>(kCpuV2) : kCpuV1;
  return {};
}

bool CgroupController::limited_by(Kind kind, const Limits& limits) {
  switch (kind) {
    case Kind::Memory:
      return limits.memory_bytes.has_value();
    case Kind::Cpu:
      return limits.cpu_millis.has_value();
    case Kind::Pids:
      return limits.pids.has_value();
    case Kind::Io:
      break;
  }
  return limits.io.has_value();
}

bool accounts_swap(const std::string& parent, Dialect dialect) {
  return exists(parent + (dialect == Dialect::V2 ? "/memory.swap.max" : "/memory.memsw.limit_in_bytes"));
}

}  // namespace osb::kernel
