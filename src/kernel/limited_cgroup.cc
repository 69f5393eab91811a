#include "kernel/limited_cgroup.h"

#include <algorithm>
#include <charconv>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fmt/format.h>

#include "kernel/cgroup_layout.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::kernel {

using Dialect = CgroupController::Dialect;
using Kind = CgroupController::Kind;

Result<void> check_limits(const Limits& limits) {
  if (limits.memory_bytes && *limits.memory_bytes < kSmallestMemory) {
    return fail(Code::InvalidRequest,
                fmt::format("memory limit of {} bytes: at least {} are needed", *limits.memory_bytes, kSmallestMemory));
  }
  if (limits.memory_bytes && *limits.memory_bytes > INT64_MAX) {
    return fail(Code::InvalidRequest, fmt::format("memory limit of {} bytes: too large", *limits.memory_bytes));
  }
  if (limits.cpu_millis && *limits.cpu_millis < kSmallestCpuMillis) {
    return fail(Code::InvalidRequest,
                fmt::format("cpu limit of {} millis: at least {} are needed", *limits.cpu_millis, kSmallestCpuMillis));
  }
  if (limits.cpu_millis && *limits.cpu_millis > kLargestCpuMillis) {
    return fail(Code::InvalidRequest,
                fmt::format("cpu limit of {} millis: at most {} are possible", *limits.cpu_millis, kLargestCpuMillis));
  }
  if (limits.pids && (*limits.pids < kSmallestPids || *limits.pids > kLargestPids)) {
    return fail(Code::InvalidRequest,
                fmt::format("pids limit of {}: expected {} to {}", *limits.pids, kSmallestPids, kLargestPids));
  }
  if (limits.io && (limits.io->read_bytes_per_second == 0 || limits.io->write_bytes_per_second == 0)) {
    return fail(Code::InvalidRequest, "io limit of 0 bytes per second: at least 1 is needed");
  }
  if (limits.io && (limits.io->reads_per_second == 0 || limits.io->writes_per_second == 0)) {
    return fail(Code::InvalidRequest, "io limit of 0 operations per second: at least 1 is needed");
  }
  return {};
}

Result<dev_t> io_device(const std::string& path) {
  struct stat st{};
  if (::stat(path.c_str(), &st) < 0) return sys::from_errno("stat " + path, errno);
  const std::string device = fmt::format("/sys/dev/block/{}:{}", major(st.st_dev), minor(st.st_dev));
  const bool partition = ::access((device + "/partition").c_str(), F_OK) == 0;
  const auto text = sys::read_text(device + (partition ? "/../dev" : "/dev"));
  if (!text) return fail(Code::Unsupported, "io limit: " + path + " is not on a disk of this host");
  unsigned numbers[2] = {};
  const char* end = text->data() + text->size();
  const auto [colon, ec] = std::from_chars(text->data(), end, numbers[0]);
  if (ec != std::errc() || colon == end || std::from_chars(colon + 1, end, numbers[1]).ec != std::errc()) {
    return fail(Code::Internal, "io limit: cannot read " + device + "/dev");
  }
  return makedev(numbers[0], numbers[1]);
}

std::string LimitedCgroup::v2_directory() const { return layout_->v2_parent + "/" + id_; }

Result<void> LimitedCgroup::make(bool with_io) const {
  for (const std::string& parent : layout_->v1_parents) {
    const std::string path = parent + "/" + id_;
    if (parent == layout_->io_parent && !with_io) {
      if (auto removed = sys::remove_cgroup(path); !removed) return removed;  // a leftover, as below
      continue;
    }
    if (::mkdir(path.c_str(), 0755) == 0) continue;
    if (errno != EEXIST) return sys::from_errno("create cgroup " + path, errno);
    // A leftover of an earlier cgroup with this name, whose v2 directory is gone. It has limits of its own.
    if (auto removed = sys::remove_cgroup(path); !removed) return removed;
    if (::mkdir(path.c_str(), 0755) < 0) return sys::from_errno("create cgroup " + path, errno);
  }
  return {};
}

Result<CgroupJoin> LimitedCgroup::open_join() const {
  CgroupJoin out;
  auto directory = sys::open_at(AT_FDCWD, v2_directory(), O_RDONLY | O_DIRECTORY);
  if (!directory) return Failure(directory.error());
  out.v2_directory = std::move(*directory);
  for (const std::string& parent : layout_->v1_parents) {
    // `tasks`, not cgroup.procs: that one waits for an RCU period even for oneself.
    auto tasks = sys::open_at(AT_FDCWD, parent + "/" + id_ + "/tasks", O_WRONLY);
    if (!tasks && tasks.error().code == Code::NotFound && parent == layout_->io_parent) continue;
    if (!tasks) return Failure(tasks.error());
    out.v1_tasks.push_back(std::move(*tasks));
  }
  if (layout_->huge_pages_v1) {
    auto tasks = sys::open_at(AT_FDCWD, layout_->huge_pages_parent + "/tasks", O_WRONLY);
    if (!tasks) return Failure(tasks.error());
    out.v1_tasks.push_back(std::move(*tasks));
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> view_of(const CgroupLayout& layout, const std::string& id) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& controller : layout.controllers) {
    if (controller.dialect != Dialect::V1 || controller.parent == layout.io_parent) continue;
    out.emplace_back(CgroupController::name(controller.kind, Dialect::V1), controller.parent + "/" + id);
  }
  if (out.empty()) out.emplace_back("", layout.v2_parent + "/" + id);
  return out;
}

Result<std::vector<std::pair<std::string, UniqueFd>>> LimitedCgroup::open_view() const {
  std::vector<std::pair<std::string, UniqueFd>> out;
  for (auto& [name, path] : view_of(*layout_, id_)) {
    auto directory = sys::open_at(AT_FDCWD, path, O_PATH | O_DIRECTORY);
    if (!directory) return Failure(directory.error());
    out.emplace_back(std::move(name), std::move(*directory));
  }
  return out;
}

LimitedCgroup::StatFiles LimitedCgroup::stat_files() const {
  StatFiles out{{"cpu.stat", v2_directory() + "/cpu.stat"}};
  for (const auto& controller : layout_->controllers) {
    for (const char* name : CgroupController::stat_files(controller.kind, controller.dialect)) {
      out.emplace_back(name, fmt::format("{}/{}/{}", controller.parent, id_, name));
    }
  }
  return out;
}

std::vector<std::pair<std::string, UniqueFd>> LimitedCgroup::open_hidden_stats() const {
  const auto view = view_of(*layout_, id_);
  std::vector<std::pair<std::string, UniqueFd>> out;
  for (const auto& [name, path] : stat_files()) {
    const std::string_view directory(path.data(), path.rfind('/'));
    if (std::ranges::any_of(view, [&](const auto& seen) { return seen.second == directory; })) continue;
    // A kernel without the file has nothing to tell.
    if (auto file = sys::open_at(AT_FDCWD, path, O_RDONLY)) out.emplace_back(name, std::move(*file));
  }
  return out;
}

Result<void> LimitedCgroup::update(const Limits& limits) const {
  if (auto ok = check_limits(limits); !ok) return ok;
  for (const Kind kind : CgroupController::kKinds) {
    if (!CgroupController::limited_by(kind, limits)) continue;
    const auto it = std::ranges::find(layout_->controllers, kind, &CgroupLayout::Controller::kind);
    const std::string name(CgroupController::name(kind, Dialect::V2));
    if (it == layout_->controllers.end()) {
      return fail(Code::Unsupported, fmt::format("{0} limit: this host has no {0} cgroup controller", name));
    }
    const std::string directory = it->parent + "/" + id_;
    if (it->parent == layout_->io_parent && ::access(directory.c_str(), F_OK) < 0) {
      return fail(Code::Unsupported, "io limit: on this host only a cgroup created with one can have it changed");
    }
    if (auto done = it->files->apply(directory, limits); !done) return done;
  }
  return {};
}

Result<void> LimitedCgroup::freeze(bool on, std::chrono::milliseconds limit) const {
  const std::string file = v2_directory() + "/cgroup.freeze";
  if (auto written = sys::write_text(file, on ? "1" : "0"); !written) return written;
  const auto reached = v2().wait_events(limit, [&](const auto& now) { return !now || now->frozen == on; });
  if (!reached) return Failure(reached.error());
  if (*reached) return {};
  if (on) (void)sys::write_text(file, "0");
  return fail(Code::Timeout, fmt::format("{} cgroup {}: not done within {} ms: a process is stuck in the kernel",
                                         on ? "freeze" : "thaw", id_, limit.count()));
}

Result<bool> LimitedCgroup::frozen() const {
  const auto events = v2().events();
  if (!events) return Failure(events.error());
  return *events && (*events)->frozen;
}

Result<bool> LimitedCgroup::populated() const {
  const auto events = v2().events();
  if (!events) return Failure(events.error());
  return *events && (*events)->populated;
}

Result<void> LimitedCgroup::remove() const {
  // Asked first: a member that has just been born here may not have joined the v1 cgroups yet.
  if (const auto members = populated(); members && *members) {
    return Failure(Error(Code::Conflict, fmt::format("remove cgroup {}: it has members", id_), EBUSY));
  }
  for (const std::string& parent : layout_->v1_parents) {
    if (auto removed = sys::remove_cgroup(parent + "/" + id_); !removed) return removed;
  }
  return sys::remove_cgroup(v2_directory());
}

Result<CgroupUsage> LimitedCgroup::usage() const {
  CgroupUsage out;
  const auto cpu = sys::read_text(v2_directory() + "/cpu.stat");  // there even without a cpu controller
  if (!cpu) return Failure(cpu.error());
  out.cpu_usec = sys::parse_cgroup_key(*cpu, "usage_usec").value_or(0);
  for (const auto& controller : layout_->controllers) controller.files->read(controller.parent + "/" + id_, out);
  return out;
}

bool CgroupUsage::reached_memory_limit() const {
  constexpr std::uint64_t kChargeStep = 1 << 20;  // a full cgroup can be this far from its limit
  if (memory_limit_hits) return *memory_limit_hits > 0;
  return !memory_peak_bytes || !memory_limit_bytes || *memory_peak_bytes + kChargeStep >= *memory_limit_bytes;
}

Result<std::uint64_t> LimitedCgroup::oom_kills() const {
  const auto now = usage();
  if (!now) return Failure(now.error());
  return now->oom_kills;
}

}  // namespace osb::kernel
