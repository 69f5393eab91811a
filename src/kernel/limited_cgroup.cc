#include "kernel/limited_cgroup.h"

#include <algorithm>
#include <charconv>
#include <dirent.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <fmt/format.h>

#include "kernel/cgroup_controller.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::kernel {

using Clock = std::chrono::steady_clock;
using Dialect = CgroupController::Dialect;
using Kind = CgroupController::Kind;

// What the factory found. Paths of cgroups are `parent` + "/" + id.
struct CgroupLayout {
  struct Controller {
    Kind kind;
    Dialect dialect;
    std::string parent;
    std::unique_ptr<CgroupController> files;
  };
  UniqueFd own_mount;     // of cgroup2, where the host has none; `v2_parent` goes through it
  std::string v2_parent;  // always there
  std::vector<Controller> controllers;
  std::vector<std::string> v1_parents;  // one per hierarchy, even where it has several controllers
  // The hierarchy of v1 that only counts and limits io. A cgroup in it costs as much as the one for pids, so there is
  // one only for who asks for the limit.
  std::string io_parent;
};

namespace {

constexpr const char* kDaemonLeaf = "daemon";
constexpr int kMoveRounds = 20;

std::vector<std::string> directories_in(const std::string& path) {
  std::vector<std::string> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(path.c_str()), &::closedir);
  if (!dir) return out;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string_view name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..") out.emplace_back(name);
  }
  return out;
}

Result<void> make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) < 0 && errno != EEXIST) return sys::from_errno("create cgroup " + path, errno);
  return {};
}

// rmdir first: nearly always there is nothing below.
Result<void> remove_tree(const std::string& path) {
  if (::rmdir(path.c_str()) == 0 || errno == ENOENT) return {};
  if (errno != EBUSY && errno != ENOTEMPTY) return sys::from_errno("remove cgroup " + path, errno);
  for (const std::string& name : directories_in(path)) {
    if (auto removed = remove_tree(path + "/" + name); !removed) return removed;
  }
  if (::rmdir(path.c_str()) == 0 || errno == ENOENT) return {};
  if (errno == EBUSY) return Failure(Error(Code::Conflict, "remove cgroup " + path + ": it has members", EBUSY));
  return sys::from_errno("remove cgroup " + path, errno);
}

bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; at += word.size()) {
    const std::size_t end = at + word.size();
    const auto space = [&](std::size_t i) { return i >= text.size() || text[i] == ' ' || text[i] == '\n'; };
    if ((at == 0 || space(at - 1)) && space(end)) return true;
  }
  return false;
}

// The names of a relative path, or an error if it could lead elsewhere.
Result<std::vector<std::string>> components(std::string_view path) {
  std::vector<std::string> out;
  while (!path.empty()) {
    const std::size_t end = path.find('/');
    out.emplace_back(path.substr(0, end));
    if (out.back().empty() || out.back().front() == '.') {
      return fail(Code::InvalidRequest, "cgroup parent: expected a relative path such as opensandbox");
    }
    if (end == std::string_view::npos) break;
    path.remove_prefix(end + 1);
  }
  if (out.empty()) return fail(Code::InvalidRequest, "cgroup parent: expected a name such as opensandbox");
  return out;
}

Result<void> check_id(const std::string& id) {
  // A dot could name one of the kernel's own files.
  const bool ok = !id.empty() && id.size() <= 128 && id != kDaemonLeaf && std::ranges::all_of(id, [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
  return ok ? Result<void>() : fail(Code::InvalidRequest, "cgroup name: expected letters, digits, '-' and '_'");
}

bool delegated_by_systemd(const std::string& directory) {
  for (const char* name : {"trusted.delegate", "user.delegate"}) {
    char value[2];
    if (::getxattr(directory.c_str(), name, value, sizeof value) == 1 && value[0] == '1') return true;
  }
  return false;
}

// Where our part of the v2 hierarchy begins (LimitedCgroups::open).
std::string v2_top(const sys::CgroupDirectories::Directory& own) {
  const std::size_t slash = own.path.rfind('/');
  if (own.path != own.mount && own.path.substr(slash + 1) == kDaemonLeaf) {
    const std::string unit = own.path.substr(0, slash);
    if (delegated_by_systemd(unit)) return unit;
  }
  return own.mount;
}

Result<UniqueFd> mount_cgroup2() {
  UniqueFd context(::fsopen("cgroup2", FSOPEN_CLOEXEC));
  if (!context || ::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) < 0) {
    return sys::from_errno("cgroup2 is not mounted and cannot be", errno);
  }
  UniqueFd mount(::fsmount(context.get(), FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC));
  if (!mount) return sys::from_errno("cgroup2 is not mounted and cannot be", errno);
  return mount;
}

// All processes directly in `directory` to its leaf, in rounds because they may fork meanwhile.
Result<void> move_to_leaf(const std::string& directory) {
  const std::string leaf = directory + "/" + kDaemonLeaf;
  if (auto made = make_directory(leaf); !made) return made;
  for (int round = 0; round < kMoveRounds; ++round) {
    const auto members = sys::read_text(directory + "/cgroup.procs");
    if (!members) return Failure(members.error());
    if (members->empty()) return {};
    sys::for_each_line(*members, [&](std::string_view pid) { (void)sys::write_text(leaf + "/cgroup.procs", pid); });
  }
  return fail(Code::Conflict, "cgroup " + directory + ": its processes cannot be moved to " + leaf);
}

// Enables our controllers for the children of `directory`. Those the kernel refuses (a realtime process in the way of
// cpu) stay off and are missing later.
void enable_controllers(const std::string& directory, bool top) {
  const auto offered = sys::read_text(directory + "/cgroup.controllers");
  const auto enabled = sys::read_text(directory + "/cgroup.subtree_control");
  if (!offered || !enabled) return;
  for (const Kind kind : CgroupController::kKinds) {
    const std::string name(CgroupController::name(kind, Dialect::V2));
    if (!has_word(*offered, name) || has_word(*enabled, name)) continue;
    const auto done = sys::write_text(directory + "/cgroup.subtree_control", "+" + name);
    if (!done && done.error().sys_errno == EBUSY && top && move_to_leaf(directory)) {
      (void)sys::write_text(directory + "/cgroup.subtree_control", "+" + name);
    }
  }
}

Result<std::string> make_path(std::string top, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    top += "/" + name;
    if (auto made = make_directory(top); !made) return Failure(made.error());
  }
  return top;
}

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

// Until `reached` or the time is up. The kernel counts its notifications per open file from the last read on, so none
// is lost between read and poll.
template <typename F>
Result<bool> wait_events(int fd, std::chrono::milliseconds limit, F reached) {
  const auto deadline = Clock::now() + limit;
  for (;;) {
    const auto events = read_events(fd);
    if (!events) return Failure(events.error());
    if (reached(*events)) return true;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
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

Result<LimitedCgroups> LimitedCgroups::open(std::string_view parent, const sys::CgroupSources& sources) {
  const auto names = components(parent);
  if (!names) return Failure(names.error());
  const sys::CgroupDirectories found = sys::find_cgroups(sources);
  auto layout = std::make_shared<CgroupLayout>();

  std::string top;
  if (found.v2) {
    top = v2_top(*found.v2);
  } else {
    auto mounted = mount_cgroup2();
    if (!mounted) return Failure(mounted.error());
    layout->own_mount = std::move(*mounted);
    top = fmt::format("/proc/self/fd/{}", layout->own_mount.get());
  }
  layout->v2_parent = top;
  enable_controllers(top, true);
  for (const std::string& name : *names) {
    layout->v2_parent += "/" + name;
    if (auto made = make_directory(layout->v2_parent); !made) return Failure(made.error());
    enable_controllers(layout->v2_parent, false);
  }

  const std::string enabled = sys::read_text(layout->v2_parent + "/cgroup.subtree_control").value_or("");
  for (const Kind kind : CgroupController::kKinds) {
    const auto v1 = found.v1.find(CgroupController::name(kind, Dialect::V1));
    if (has_word(enabled, CgroupController::name(kind, Dialect::V2))) {
      auto files = CgroupController::make(kind, Dialect::V2);
      layout->controllers.push_back({kind, Dialect::V2, layout->v2_parent, std::move(files)});
    } else if (v1 != found.v1.end()) {
      auto path = make_path(v1->second.mount, *names);
      if (!path) return Failure(path.error());
      if (std::ranges::find(layout->v1_parents, *path) == layout->v1_parents.end()) {
        layout->v1_parents.push_back(*path);
        if (kind == Kind::Io) layout->io_parent = *path;
      }
      layout->controllers.push_back({kind, Dialect::V1, *path, CgroupController::make(kind, Dialect::V1)});
    }
  }
  return LimitedCgroups(std::move(layout));
}

Result<LimitedCgroup> LimitedCgroups::create(const std::string& id, const Limits& limits) const {
  if (auto ok = check_id(id); !ok) return Failure(ok.error());
  if (auto ok = check_limits(limits); !ok) return Failure(ok.error());
  const LimitedCgroup cgroup(layout_, id);
  // The v2 directory first and by mkdir alone: who makes it owns the name.
  const std::string v2 = cgroup.v2_directory();
  if (::mkdir(v2.c_str(), 0755) < 0) return sys::from_errno("create cgroup " + v2, errno);
  Result<void> done = cgroup.make(limits.io.has_value());
  if (done) done = cgroup.update(limits);
  if (done) return cgroup;
  (void)cgroup.remove();
  return Failure(done.error());
}

Result<LimitedCgroup> LimitedCgroups::open_existing(const std::string& id) const {
  if (auto ok = check_id(id); !ok) return Failure(ok.error());
  LimitedCgroup cgroup(layout_, id);
  if (::access(cgroup.v2_directory().c_str(), F_OK) < 0) return sys::from_errno("cgroup " + id, errno);
  return cgroup;
}

std::vector<std::string> LimitedCgroups::list() const { return directories_in(layout_->v2_parent); }

LimitedCgroups::Support LimitedCgroups::support() const {
  Support out;
  out.mode = layout_->v1_parents.empty() ? "v2" : "hybrid";
  for (const auto& controller : layout_->controllers) {
    const bool works = controller.files->can_limit(controller.parent);
    switch (controller.kind) {
      case Kind::Memory:
        out.memory = works;
        out.swap = accounts_swap(controller.parent, controller.dialect);
        break;
      case Kind::Cpu:
        out.cpu = works;
        break;
      case Kind::Pids:
        out.pids = works;
        break;
      case Kind::Io:
        out.io = works;
        break;
    }
  }
  return out;
}

Result<void> LimitedCgroups::remove_parent() const {
  std::vector<std::string> all = layout_->v1_parents;
  all.push_back(layout_->v2_parent);
  for (const std::string& path : all) {
    if (::rmdir(path.c_str()) < 0 && errno != ENOENT) return sys::from_errno("remove cgroup " + path, errno);
  }
  return {};
}

std::string LimitedCgroup::v2_directory() const { return layout_->v2_parent + "/" + id_; }

Result<void> LimitedCgroup::make(bool with_io) const {
  for (const std::string& parent : layout_->v1_parents) {
    const std::string path = parent + "/" + id_;
    if (parent == layout_->io_parent && !with_io) {
      if (auto removed = remove_tree(path); !removed) return removed;  // a leftover, as below
      continue;
    }
    if (::mkdir(path.c_str(), 0755) == 0) continue;
    if (errno != EEXIST) return sys::from_errno("create cgroup " + path, errno);
    // Whoever had this name before has lost the v2 directory: a leftover, with limits of its own.
    if (auto removed = remove_tree(path); !removed) return removed;
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
  return out;
}

Result<std::vector<std::pair<std::string, UniqueFd>>> LimitedCgroup::open_view() const {
  std::vector<std::pair<std::string, std::string>> paths;
  for (const auto& controller : layout_->controllers) {
    if (controller.dialect != Dialect::V1 || controller.parent == layout_->io_parent) continue;
    paths.emplace_back(CgroupController::name(controller.kind, Dialect::V1), controller.parent + "/" + id_);
  }
  if (paths.empty()) paths.emplace_back("", v2_directory());
  std::vector<std::pair<std::string, UniqueFd>> out;
  for (auto& [name, path] : paths) {
    auto directory = sys::open_at(AT_FDCWD, path, O_PATH | O_DIRECTORY);
    if (!directory) return Failure(directory.error());
    out.emplace_back(std::move(name), std::move(*directory));
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
      return fail(Code::Unsupported, name + " limit: this host has no " + name + " cgroup controller");
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
    return Failure(Error(Code::Conflict, "remove cgroup " + id_ + ": it has members", EBUSY));
  }
  for (const std::string& parent : layout_->v1_parents) {
    if (auto removed = remove_tree(parent + "/" + id_); !removed) return removed;
  }
  return remove_tree(v2_directory());
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
