#include "sys/cgroup.h"

#include <algorithm>
#include <chrono>
#include <dirent.h>
#include <memory>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/deadline.h"
#include "sys/mountinfo.h"
#include "sys/pidfd.h"
#include "sys/spawn.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::sys {
namespace {

// For members to stand still, or to die where new ones may appear meanwhile. How long that takes is up to the
// scheduler.
constexpr std::chrono::seconds kKillTime{5};
constexpr int kMoveRounds = 20;

bool is_directory(const std::string& path) {
  struct stat st{};
  return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

CgroupDirectories::Directory locate(const std::string& mount, const std::string& root, const std::string& path) {
  std::string below;
  if (root == "/") {
    below = path;
  } else if (path == root || path.starts_with(root + "/")) {
    below = path.substr(root.size());
  }
  while (below.ends_with('/')) below.pop_back();
  const bool inside = !below.empty() && below.find("/..") == std::string::npos && is_directory(mount + below);
  return {mount, inside ? mount + below : mount};
}

std::string below(const std::string& directory, const std::string& name) {
  return std::string(directory).append("/").append(name);
}

void append_pids(const std::string& directory, std::vector<pid_t>& out) {
  if (const auto text = read_text(directory + "/cgroup.procs")) {
    const auto pids = parse_cgroup_pids(*text);
    out.insert(out.end(), pids.begin(), pids.end());
  }
  for (const std::string& name : cgroups_in(directory)) append_pids(below(directory, name), out);
}

// Nothing when the cgroup is gone.
Result<std::optional<CgroupEvents>> read_events(int fd) {
  char text[256];
  const ssize_t got = ::pread(fd, text, sizeof text, 0);
  if (got < 0 && errno == ENODEV) return std::nullopt;
  if (got < 0) return from_errno("read cgroup.events", errno);
  return parse_cgroup_events({text, static_cast<std::size_t>(got)});
}

// The kernel holds a notification back for as long as 10 ms after the one before it, and most events come much sooner:
// for a moment they are looked at, then waited for.
constexpr int kLooks = 20;
constexpr timespec kBetweenLooks{0, 50'000};

// A pid is signalled only if it was a member before and after its pidfd was opened. Waits for their end, if that is
// asked for, until `deadline`. Returns how many there were.
std::size_t kill_members(const Cgroup& cgroup, const Deadline* deadline = nullptr) {
  struct Member {
    pid_t pid;
    UniqueFd fd;
  };
  constexpr std::size_t kAtOnce = 64;  // descriptors are scarcer than processes
  const std::vector<pid_t> all = cgroup.pids();
  for (std::size_t at = 0; at < all.size(); at += kAtOnce) {
    std::vector<Member> opened;
    for (std::size_t i = at; i < std::min(at + kAtOnce, all.size()); ++i) {
      if (auto fd = open_pidfd(all[i])) opened.push_back({all[i], std::move(*fd)});
    }
    auto still = cgroup.pids();
    std::ranges::sort(still);
    for (const Member& member : opened) {
      if (std::ranges::binary_search(still, member.pid)) (void)send_signal(member.fd.get(), SIGKILL);
    }
    for (const Member& member : opened) {
      if (deadline == nullptr || !std::ranges::binary_search(still, member.pid)) continue;
      wait_ended(member.fd.get(), deadline->left());
    }
  }
  return all.size();
}

}  // namespace

CgroupDirectories find_cgroups(const CgroupSources& sources) {
  CgroupDirectories out;
  const auto membership = read_text(sources.membership);
  const auto mounts = read_text(sources.mounts);
  if (!membership || !mounts) return out;

  std::map<std::string, std::string, std::less<>> paths;   // controller, or "" for v2 -> our path
  for_each_line(*membership, [&](std::string_view line) {  // "4:memory:/a/b", "0::/a"
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) return;
    for (const auto name : split(line.substr(first + 1, second - first - 1), ',')) {
      paths.emplace(name, line.substr(second + 1));
    }
  });
  for (const MountEntry& entry : parse_mountinfo(*mounts)) {
    if (entry.type == "cgroup2") {
      const auto path = paths.find("");
      if (path != paths.end() && !out.v2) out.v2 = locate(entry.point, entry.root, path->second);
    } else if (entry.type == "cgroup") {
      for (const auto option : split(entry.super_options, ',')) {
        if (option.empty()) continue;
        const auto path = paths.find(option);
        if (path != paths.end()) out.v1.try_emplace(std::string(option), locate(entry.point, entry.root, path->second));
      }
    }
  }
  return out;
}

std::vector<std::string> cgroups_in(const std::string& directory) {
  std::vector<std::string> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(directory.c_str()), &::closedir);
  if (!dir) return out;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string_view name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..") out.emplace_back(name);
  }
  return out;
}

// rmdir first: nearly always there is nothing below.
Result<void> remove_cgroup(const std::string& directory) {
  if (::rmdir(directory.c_str()) == 0 || errno == ENOENT) return {};
  if (errno != EBUSY && errno != ENOTEMPTY) return from_errno("remove cgroup " + directory, errno);
  for (const std::string& name : cgroups_in(directory)) {
    if (auto removed = remove_cgroup(below(directory, name)); !removed) return removed;
  }
  if (::rmdir(directory.c_str()) == 0 || errno == ENOENT) return {};
  if (errno != EBUSY) return from_errno("remove cgroup " + directory, errno);
  return Failure(Error(Code::Conflict, "remove cgroup " + directory + ": it has members", EBUSY));
}

// In rounds: a member may fork meanwhile.
Result<void> move_cgroup_members(const std::string& from, const std::string& to) {
  for (int round = 0; round < kMoveRounds; ++round) {
    const auto members = read_text(from + "/cgroup.procs");
    if (!members) return Failure(members.error());
    if (members->empty()) return {};
    for (const pid_t pid : parse_cgroup_pids(*members)) (void)write_text(to + "/cgroup.procs", std::to_string(pid));
  }
  return fail(Code::Conflict, "cgroup " + from + ": its processes cannot be moved to " + to);
}

Cgroup Cgroup::at(std::string directory) {
  const auto has = [&](const char* file) { return ::access((directory + file).c_str(), F_OK) == 0; };
  const Kind kind = has("/cgroup.events") ? Kind::V2 : has("/freezer.state") ? Kind::V1Freezer : Kind::V1Other;
  return {std::move(directory), kind};
}

std::vector<pid_t> Cgroup::pids() const {
  std::vector<pid_t> out;
  append_pids(directory_, out);
  return out;
}

Result<UniqueFd> Cgroup::enter(SpawnPlan& plan) const {
  const bool v2 = kind_ == Kind::V2;
  auto opened = v2 ? open_at(AT_FDCWD, directory_, O_PATH | O_DIRECTORY) : open_at(AT_FDCWD, join_file(), O_WRONLY);
  if (opened) (v2 ? plan.cgroup_fd : plan.cgroup_tasks_fd) = opened->get();
  return opened;
}

Cgroup::Use Cgroup::use() const {
  if (kind_ == Kind::V2) {
    const auto now = events();
    if (!now || !*now) return Use::Spoilt;
    if ((*now)->populated) return Use::Busy;
    return (*now)->frozen || *killed_ ? Use::Spoilt : Use::Free;
  }
  if (!pids().empty()) return Use::Busy;
  const bool runs = kind_ == Kind::V1Freezer ? read_text(directory_ + "/freezer.state").value_or("").contains("THAWED")
                                             : is_directory(directory_);
  return runs ? Use::Free : Use::Spoilt;
}

Result<UniqueFd> Cgroup::open_events() const { return open_at(AT_FDCWD, directory_ + "/cgroup.events", O_RDONLY); }

Result<std::optional<CgroupEvents>> Cgroup::events() const {
  const auto fd = open_events();
  if (!fd && fd.error().sys_errno == ENOENT) return std::nullopt;
  if (!fd) return Failure(fd.error());
  return read_events(fd->get());
}

// The kernel counts its notifications per open file from the last read on, so none is lost between read and poll.
Result<bool> Cgroup::wait_events(std::chrono::milliseconds limit, const Reached& reached) const {
  const auto fd = open_events();
  if (!fd && fd.error().sys_errno == ENOENT) return reached(std::nullopt);
  if (!fd) return Failure(fd.error());
  const Deadline deadline(limit);
  for (int looks = 0;; ++looks) {
    const auto now = read_events(fd->get());
    if (!now) return Failure(now.error());
    if (reached(*now)) return true;
    const auto left = deadline.left();
    if (left.count() == 0) return false;
    if (looks < kLooks) {
      ::nanosleep(&kBetweenLooks, nullptr);
      continue;
    }
    pollfd waiting{fd->get(), POLLPRI, 0};
    if (::poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 1 << 30))) < 0 && errno != EINTR) {
      return from_errno("poll cgroup.events", errno);
    }
  }
}

Result<bool> Cgroup::wait_empty(std::chrono::milliseconds limit) const {
  if (kind_ == Kind::V2) return wait_events(limit, [](const auto& now) { return !now || !now->populated; });
  const Deadline deadline(limit);
  for (auto left = limit; left.count() > 0; left = deadline.left()) {
    const auto members = pids();
    if (members.empty()) return true;
    // A member that is on its way out of the cgroup has no pidfd any more, or one that is readable.
    const auto member = open_pidfd(members.front());
    if (!member || wait_ended(member->get(), left)) ::sched_yield();
  }
  return false;
}

Result<void> Cgroup::kill() const {
  *killed_ = true;
  if (kind_ == Kind::V2) {
    const auto killed = write_text(directory_ + "/cgroup.kill", "1");
    if (killed || !is_directory(directory_)) return {};
  }
  const Deadline deadline(kKillTime);
  const std::string freezer = directory_ + (kind_ == Kind::V2 ? "/cgroup.freeze" : "/freezer.state");
  if (kind_ != Kind::V1Other && write_text(freezer, kind_ == Kind::V2 ? "1" : "FROZEN")) {
    // v1 freezes in the background, on the processor of each member, and answers FREEZING until all stand still.
    bool still = false;
    do {
      const auto state = kind_ == Kind::V1Freezer ? read_text(freezer) : Result<std::string>("FROZEN");
      still = !state || state->starts_with("FROZEN");
      if (!still) ::sched_yield();
    } while (!still && !deadline.passed());
    kill_members(*this);
    auto thawed = write_text(freezer, kind_ == Kind::V2 ? "0" : "THAWED");
    return still ? thawed : fail(Code::Timeout, "kill cgroup " + directory_ + ": members do not freeze");
  }
  do {
    if (kill_members(*this, &deadline) == 0) return {};
  } while (!deadline.passed());
  return fail(Code::Timeout, "kill cgroup " + directory_ + ": members remain");
}

void Cgroup::move_members(const std::string& directory) const {
  (void)move_cgroup_members(directory_, directory);
  for (const std::string& name : cgroups_in(directory_)) Cgroup(below(directory_, name), kind_).move_members(directory);
}

std::optional<CommandCgroups> CommandCgroups::find(const CgroupSources& sources) {
  const CgroupDirectories found = find_cgroups(sources);
  const auto writable = [](const std::string& path) { return ::access(path.c_str(), W_OK | X_OK) == 0; };
  if (found.v2 && writable(found.v2->path)) return CommandCgroups(found.v2->path, Cgroup::Kind::V2);
  for (const char* name : {"freezer", "pids", "name=systemd"}) {
    const auto it = found.v1.find(name);
    if (it == found.v1.end() || !writable(it->second.path)) continue;
    const bool freezer = std::string_view(name) == "freezer";
    return CommandCgroups(it->second.path, freezer ? Cgroup::Kind::V1Freezer : Cgroup::Kind::V1Other);
  }
  return std::nullopt;
}

std::vector<std::string> CommandCgroups::leaves(std::string_view prefix) const {
  std::vector<std::string> out = cgroups_in(directory_);
  std::erase_if(out, [&](const std::string& name) { return !name.starts_with(prefix); });
  return out;
}

Result<Cgroup> CommandCgroups::create_leaf(const std::string& name) const {
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
    return fail(Code::InvalidRequest, "create cgroup: bad name");
  }
  const std::string path = directory_ + "/" + name;
  if (::mkdir(path.c_str(), 0755) < 0) return from_errno("create cgroup " + path, errno);
  return Cgroup(path, kind_);
}

}  // namespace osb::sys
