#include "sys/cgroup.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <dirent.h>
#include <functional>
#include <memory>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/pidfd.h"
#include "sys/spawn.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::sys {
namespace {

using Clock = std::chrono::steady_clock;

// For members to stand still, or to die where new ones may appear meanwhile. How long that takes is up to the
// scheduler.
constexpr std::chrono::seconds kKillTime{5};
constexpr int kMoveRounds = 20;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  for (;;) {
    const std::size_t end = text.find(separator);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

// mountinfo writes space, tab, newline and backslash as \ooo.
std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto octal = [&](std::size_t at) { return text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && i + 3 < text.size() && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

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

void for_each_directory(const std::string& path, const std::function<void(const std::string&)>& fn) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(path.c_str()), &::closedir);
  if (!dir) return;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string_view name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..") fn(path + "/" + entry->d_name);
  }
}

void append_pids(const std::string& directory, std::vector<pid_t>& out) {
  if (const auto text = read_text(directory + "/cgroup.procs")) {
    for_each_line(*text, [&](std::string_view line) {
      pid_t pid = 0;  // stays 0 for a member outside our pid namespace
      std::from_chars(line.data(), line.data() + line.size(), pid);
      if (pid > 0) out.push_back(pid);
    });
  }
  for_each_directory(directory, [&](const std::string& child) { append_pids(child, out); });
}

Result<void> remove_all(const std::string& directory) {
  Result<void> result;
  for_each_directory(directory, [&](const std::string& child) {
    if (auto removed = remove_all(child); !removed) result = Failure(removed.error());
  });
  if (!result) return result;
  if (::rmdir(directory.c_str()) < 0 && errno != ENOENT) return from_errno("remove cgroup " + directory, errno);
  return {};
}

// A pid is signalled only if it was a member before and after its pidfd was opened. Waits for their end, if that is
// asked for, until `deadline`. Returns how many there were.
std::size_t kill_members(const CommandCgroup& cgroup, std::optional<Clock::time_point> deadline = {}) {
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
      if (!deadline || !std::ranges::binary_search(still, member.pid)) continue;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
      wait_ended(member.fd.get(), std::max(left, {}));
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
  // "40 31 0:37 ROOT MOUNTPOINT options [optional fields] - FSTYPE source SUPER-OPTIONS"
  for_each_line(*mounts, [&](std::string_view line) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) return;
    const auto before = split(line.substr(0, dash), ' ');
    const auto after = split(line.substr(dash + 3), ' ');
    if (before.size() < 6 || after.size() < 3) return;
    const std::string root = unescape(before[3]), mount = unescape(before[4]);
    if (after[0] == "cgroup2") {
      if (const auto path = paths.find(""); path != paths.end() && !out.v2) out.v2 = locate(mount, root, path->second);
    } else if (after[0] == "cgroup") {
      for (const auto option : split(after[2], ',')) {
        if (option.empty()) continue;
        const auto path = paths.find(option);
        if (path != paths.end()) out.v1.try_emplace(std::string(option), locate(mount, root, path->second));
      }
    }
  });
  return out;
}

std::vector<pid_t> CommandCgroup::pids() const {
  std::vector<pid_t> out;
  append_pids(directory_, out);
  return out;
}

Result<UniqueFd> CommandCgroup::enter(SpawnPlan& plan) const {
  const bool v2 = kind_ == Kind::V2;
  auto opened = v2 ? open_at(AT_FDCWD, directory_, O_PATH | O_DIRECTORY) : open_at(AT_FDCWD, join_file(), O_WRONLY);
  if (opened) (v2 ? plan.cgroup_fd : plan.cgroup_tasks_fd) = opened->get();
  return opened;
}

CommandCgroup::Use CommandCgroup::use() const {
  const auto has = [](const Result<std::string>& text, const char* word) {
    return text && text->find(word) != std::string::npos;
  };
  if (kind_ == Kind::V2) {
    const auto events = read_text(directory_ + "/cgroup.events");
    if (has(events, "populated 1")) return Use::Busy;
    return has(events, "populated 0") && !has(events, "frozen 1") && !*killed_ ? Use::Free : Use::Spoilt;
  }
  if (!pids().empty()) return Use::Busy;
  const bool runs =
      kind_ == Kind::V1Freezer ? has(read_text(directory_ + "/freezer.state"), "THAWED") : is_directory(directory_);
  return runs ? Use::Free : Use::Spoilt;
}

Result<void> CommandCgroup::kill() const {
  *killed_ = true;
  if (kind_ == Kind::V2) {
    const auto killed = write_text(directory_ + "/cgroup.kill", "1");
    if (killed || !is_directory(directory_)) return {};
  }
  const auto deadline = Clock::now() + kKillTime;
  const std::string freezer = directory_ + (kind_ == Kind::V2 ? "/cgroup.freeze" : "/freezer.state");
  if (kind_ != Kind::V1Other && write_text(freezer, kind_ == Kind::V2 ? "1" : "FROZEN")) {
    // v1 freezes in the background, on the processor of each member, and answers FREEZING until all stand still.
    bool still = false;
    do {
      const auto state = kind_ == Kind::V1Freezer ? read_text(freezer) : Result<std::string>("FROZEN");
      still = !state || state->starts_with("FROZEN");
      if (!still) ::sched_yield();
    } while (!still && Clock::now() < deadline);
    kill_members(*this);
    auto thawed = write_text(freezer, kind_ == Kind::V2 ? "0" : "THAWED");
    return still ? thawed : fail(Code::Timeout, "kill cgroup " + directory_ + ": members do not freeze");
  }
  do {
    if (kill_members(*this, deadline) == 0) return {};
  } while (Clock::now() < deadline);
  return fail(Code::Timeout, "kill cgroup " + directory_ + ": members remain");
}

void CommandCgroup::move_members(const std::string& directory) const {
  for (int round = 0; round < kMoveRounds; ++round) {  // a member may fork meanwhile
    const auto members = pids();
    if (members.empty()) return;
    for (const pid_t pid : members) (void)write_text(directory + "/cgroup.procs", std::to_string(pid));
  }
}

Result<void> CommandCgroup::remove() const { return remove_all(directory_); }

std::optional<CommandCgroups> CommandCgroups::find(const CgroupSources& sources) {
  const CgroupDirectories found = find_cgroups(sources);
  const auto writable = [](const std::string& path) { return ::access(path.c_str(), W_OK | X_OK) == 0; };
  if (found.v2 && writable(found.v2->path)) return CommandCgroups(found.v2->path, CommandCgroup::Kind::V2);
  for (const char* name : {"freezer", "pids", "name=systemd"}) {
    const auto it = found.v1.find(name);
    if (it == found.v1.end() || !writable(it->second.path)) continue;
    const bool freezer = std::string_view(name) == "freezer";
    return CommandCgroups(it->second.path, freezer ? CommandCgroup::Kind::V1Freezer : CommandCgroup::Kind::V1Other);
  }
  return std::nullopt;
}

std::vector<std::string> CommandCgroups::leaves(std::string_view prefix) const {
  std::vector<std::string> out;
  for_each_directory(directory_, [&](const std::string& path) {
    std::string name = path.substr(path.rfind('/') + 1);
    if (name.starts_with(prefix)) out.push_back(std::move(name));
  });
  return out;
}

Result<CommandCgroup> CommandCgroups::create_leaf(const std::string& name) const {
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
    return fail(Code::InvalidRequest, "create cgroup: bad name");
  }
  const std::string path = directory_ + "/" + name;
  if (::mkdir(path.c_str(), 0755) < 0) return from_errno("create cgroup " + path, errno);
  return CommandCgroup(path, kind_);
}

}  // namespace osb::sys
