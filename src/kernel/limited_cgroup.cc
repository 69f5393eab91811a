#include "kernel/limited_cgroup.h"

#include <algorithm>
#include <charconv>
#include <dirent.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fmt/format.h>

#include "kernel/cgroup_layout.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::kernel {

using Clock = std::chrono::steady_clock;
using Dialect = CgroupController::Dialect;
using Kind = CgroupController::Kind;

std::vector<std::string> cgroups_in(const std::string& path) {
  std::vector<std::string> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(path.c_str()), &::closedir);
  if (!dir) return out;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string_view name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..") out.emplace_back(name);
  }
  return out;
}

// rmdir first: nearly always there is nothing below.
Result<void> remove_cgroup_tree(const std::string& path) {
  if (::rmdir(path.c_str()) == 0 || errno == ENOENT) return {};
  if (errno != EBUSY && errno != ENOTEMPTY) return sys::from_errno("remove cgroup " + path, errno);
  for (const std::string& name : cgroups_in(path)) {
    if (auto removed = remove_cgroup_tree(fmt::format("{}/{}", path, name)); !removed) return removed;
  }
  if (::rmdir(path.c_str()) == 0 || errno == ENOENT) return {};
  if (errno == EBUSY)
    return Failure(Error(Code::Conflict, fmt::format("remove cgroup {}: it has members", path), EBUSY));
  return sys::from_errno("remove cgroup " + path, errno);
}

namespace {

struct Events {
  bool populated = false;
  bool frozen = false;
};

// Nothing when the cgroup is gone.
Result<std::optional<Events>> read_events(int fd) {
  char text[256];
  const ssize_t got = ::pread(fd, text, sizeof text, 0);
  if (got < 0 && errno == ENODEV) return std::nullopt;
  if (got < 0) return sys::from_errno("read cgroup.events", errno);
  const std::string_view events(text, static_cast<std::size_t>(got));
  return Events{events.find("populated 1") != events.npos, events.find("frozen 1") != events.npos};
}

// The kernel holds a notification back for as long as 10 ms after the one before it, and most of what is waited for
// takes much less: for a moment it is looked at, then waited for.
constexpr int kLooks = 20;
constexpr timespec kBetweenLooks{0, 50'000};

// Until `reached` or the time is up. The kernel counts its notifications per open file from the last read on, so none
// is lost between read and poll.
template <typename F>
Result<bool> wait_events(int fd, std::chrono::milliseconds limit, F reached) {
  const auto deadline = Clock::now() + limit;
  for (int looks = 0;; ++looks) {
    const auto events = read_events(fd);
    if (!events) return Failure(events.error());
    if (reached(*events)) return true;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    if (looks < kLooks) {
      ::nanosleep(&kBetweenLooks, nullptr);
      continue;
    }
    pollfd waiting{fd, POLLPRI, 0};
    if (::poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 1 << 30))) < 0 && errno != EINTR) {
      return sys::from_errno("poll cgroup.events", errno);
    }
  }
}

}  // namespace

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
      if (auto removed = remove_cgroup_tree(path); !removed) return removed;  // a leftover, as below
      continue;
    }
    if (::mkdir(path.c_str(), 0755) == 0) continue;
    if (errno != EEXIST) return sys::from_errno("create cgroup " + path, errno);
    // A leftover of an earlier cgroup with this name, whose v2 directory is gone. It has limits of its own.
    if (auto removed = remove_cgroup_tree(path); !removed) return removed;
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

Result<UniqueFd> LimitedCgroup::open_events() const {
  return sys::open_at(AT_FDCWD, v2_directory() + "/cgroup.events", O_RDONLY);
}

Result<void> LimitedCgroup::freeze(bool on, std::chrono::milliseconds limit) const {
  const auto events = open_events();
  if (!events) return Failure(events.error());
  const std::string file = v2_directory() + "/cgroup.freeze";
  if (auto written = sys::write_text(file, on ? "1" : "0"); !written) return written;
  const auto reached = wait_events(events->get(), limit, [&](const auto& now) { return !now || now->frozen == on; });
  if (!reached) return Failure(reached.error());
  if (*reached) return {};
  if (on) (void)sys::write_text(file, "0");
  return fail(Code::Timeout, fmt::format("{} cgroup {}: not done within {} ms: a process is stuck in the kernel",
                                         on ? "freeze" : "thaw", id_, limit.count()));
}

Result<bool> LimitedCgroup::frozen() const {
  const auto fd = open_events();
  if (!fd) return Failure(fd.error());
  const auto events = read_events(fd->get());
  if (!events) return Failure(events.error());
  return *events && (*events)->frozen;
}

Result<bool> LimitedCgroup::populated() const {
  const auto fd = open_events();
  if (!fd) return Failure(fd.error());
  const auto events = read_events(fd->get());
  if (!events) return Failure(events.error());
  return *events && (*events)->populated;
}

Result<bool> LimitedCgroup::wait_empty(std::chrono::milliseconds limit) const {
  const auto fd = open_events();
  if (!fd && fd.error().sys_errno == ENOENT) return true;
  if (!fd) return Failure(fd.error());
  return wait_events(fd->get(), limit, [](const auto& now) { return !now || !now->populated; });
}

Result<void> LimitedCgroup::kill() const {
  const auto killed = sys::write_text(v2_directory() + "/cgroup.kill", "1");
  if (killed || ::access(v2_directory().c_str(), F_OK) < 0) return {};
  return killed;
}

Result<void> LimitedCgroup::remove() const {
  // Asked first: a member that has just been born here may not have joined the v1 cgroups yet.
  if (const auto members = populated(); members && *members) {
    return Failure(Error(Code::Conflict, fmt::format("remove cgroup {}: it has members", id_), EBUSY));
  }
  for (const std::string& parent : layout_->v1_parents) {
    if (auto removed = remove_cgroup_tree(parent + "/" + id_); !removed) return removed;
  }
  return remove_cgroup_tree(v2_directory());
}

Result<CgroupUsage> LimitedCgroup::usage() const {
  CgroupUsage out;
  const auto cpu = sys::read_text(v2_directory() + "/cpu.stat");  // there even without a cpu controller
  if (!cpu) return Failure(cpu.error());
  constexpr std::string_view kKey = "usage_usec ";
  if (const std::size_t at = cpu->find(kKey); at != std::string::npos) {
    std::from_chars(cpu->data() + at + kKey.size(), cpu->data() + cpu->size(), out.cpu_usec);
  }
  for (const auto& controller : layout_->controllers) controller.files->read(controller.parent + "/" + id_, out);
  return out;
}

Result<std::uint64_t> LimitedCgroup::oom_kills() const {
  const auto now = usage();
  if (!now) return Failure(now.error());
  return now->oom_kills;
}

}  // namespace osb::kernel
