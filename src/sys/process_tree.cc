#include "sys/process_tree.h"

#include <algorithm>
#include <dirent.h>
#include <memory>
#include <sched.h>
#include <set>
#include <signal.h>
#include <string_view>
#include <sys/prctl.h>
#include <unistd.h>
#include <unordered_map>
#include <unordered_set>

#include "base/deadline.h"
#include "base/parse_number.h"
#include "sys/cgroup.h"
#include "sys/pidfd.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::sys {
namespace {

// A process that outruns this many scans is stopped by the kill that follows and the next round.
constexpr int kStopScans = 200;
// The number of scans to wait for a process that cannot be stopped because the kernel holds it.
constexpr int kQuietScans = 50;

std::vector<pid_t> list_pids(const std::string& proc) {
  std::vector<pid_t> pids;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(proc.c_str()), &::closedir);
  if (!dir) return pids;
  while (const dirent* entry = ::readdir(dir.get())) {
    if (const auto pid = parse_number<pid_t>(entry->d_name); pid && *pid > 0) pids.push_back(*pid);
  }
  return pids;
}

enum class Marked { No, Yes, AsAnother };

Marked look_for_marker(const ProcessTree& tree, pid_t pid) {
  if (tree.marker.empty()) return Marked::No;
  const auto text = read_text(tree.proc + "/" + std::to_string(pid) + "/environ");
  if (!text) return Marked::No;
  const std::string_view name = std::string_view(tree.marker).substr(0, tree.marker.find('=') + 1);
  for (std::string_view rest = *text; !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find('\0'));
    if (entry == tree.marker) return Marked::Yes;
    if (!name.empty() && entry.starts_with(name)) return Marked::AsAnother;
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
  }
  return Marked::No;
}

// All processes, by pid, zombies included: a dead parent still links its children until it is reaped.
using Table = std::unordered_map<pid_t, Process>;

Table read_table(const std::string& proc) {
  Table table;
  for (const pid_t pid : list_pids(proc)) {
    if (const auto process = read_process(pid, proc)) table.emplace(pid, *process);
  }
  return table;
}

std::vector<Process> members(const ProcessTree& tree, const Table& table) {
  const pid_t self = ::getpid();
  std::unordered_set<pid_t> in;
  std::vector<pid_t> open;
  const auto add = [&](pid_t pid) {
    if (pid > 1 && pid != self && in.insert(pid).second) open.push_back(pid);
  };

  if (tree.cgroup != nullptr) {
    for (const pid_t pid : tree.cgroup->pids()) add(pid);
  }
  const auto leader = table.find(tree.leader);
  const bool leader_known = leader != table.end();
  const bool reused = leader_known && tree.leader_start != 0 && leader->second.start != tree.leader_start;
  const bool by_leader = tree.leader > 1 && tree.leader != self && !reused;
  std::unordered_multimap<pid_t, pid_t> children;
  for (const auto& [pid, process] : table) {
    children.emplace(process.parent, pid);
    if (by_leader && (pid == tree.leader || process.group == tree.leader || process.session == tree.leader)) {
      // With the leader gone its number may name a younger command's group by now.
      if (leader_known || look_for_marker(tree, pid) != Marked::AsAnother) add(pid);
    }
    if (process.parent == self && process.alive && !in.contains(pid) && look_for_marker(tree, pid) == Marked::Yes) {
      add(pid);
    }
  }
  while (!open.empty()) {
    const auto [begin, end] = children.equal_range(open.back());
    open.pop_back();
    for (auto it = begin; it != end; ++it) add(it->second);
  }

  std::vector<Process> out;
  for (const pid_t pid : in) {
    if (const auto it = table.find(pid); it != table.end() && it->second.alive) out.push_back(it->second);
  }
  return out;
}

// Nothing when the process has ended or its pid means another one.
std::optional<UniqueFd> open_verified(const Process& process, const std::string& proc) {
  auto fd = open_pidfd(process.pid);
  if (!fd) return std::nullopt;
  const auto now = read_process(process.pid, proc);
  if (!now || now->start != process.start) return std::nullopt;
  return std::move(*fd);
}

bool signal_verified(const Process& process, int signal, const std::string& proc) {
  const auto fd = open_verified(process, proc);
  return fd && send_signal(fd->get(), signal).has_value();
}

// Groups of `wanted` all of whose members belong to the tree: one kill() reaches them at once, and a fork cannot slip
// through.
std::set<pid_t> whole_groups(const std::vector<Process>& wanted, const std::vector<Process>& tree, const Table& table) {
  std::unordered_set<pid_t> in;
  std::set<pid_t> groups;
  for (const Process& process : tree) in.insert(process.pid);
  for (const Process& process : wanted) {
    if (process.group > 1) groups.insert(process.group);
  }
  groups.erase(::getpgrp());
  for (const auto& [pid, process] : table) {
    if (process.alive && !in.contains(pid)) groups.erase(process.group);
  }
  return groups;
}

// Returns the members of the last scan, all of them stopped as far as that can be done.
std::vector<Process> stop_all(const ProcessTree& tree, const Deadline& deadline) {
  std::set<std::pair<pid_t, std::uint64_t>> stopped;
  for (int scan = 0, quiet = 0;; ++scan) {
    const Table table = read_table(tree.proc);
    auto found = members(tree, table);
    std::vector<Process> fresh;
    for (const Process& process : found) {
      if (stopped.emplace(process.pid, process.start).second) fresh.push_back(process);
    }
    // A process in the middle of a fork stops after it.
    const bool at_rest = fresh.empty() && (++quiet > kQuietScans || std::ranges::all_of(found, &Process::stopped));
    if (at_rest || scan >= kStopScans || deadline.passed()) return found;
    if (fresh.empty()) ::sched_yield();
    for (const pid_t group : whole_groups(fresh, found, table)) ::kill(-group, SIGSTOP);
    for (const Process& process : fresh) signal_verified(process, SIGSTOP, tree.proc);
  }
}

}  // namespace

std::optional<Process> read_process(pid_t pid, const std::string& proc) {
  const auto text = read_text(proc + "/" + std::to_string(pid) + "/stat", 64 << 10);
  if (!text) return std::nullopt;
  // The name is in parentheses and may hold anything, parentheses and spaces too: the last one ends it.
  const std::size_t close = text->rfind(')');
  if (close == std::string::npos || close + 2 >= text->size()) return std::nullopt;
  std::string_view rest = std::string_view(*text).substr(close + 2);
  Process process;
  process.pid = pid;
  std::uint64_t threads = 0;
  char state = 0;
  // Fields 3 (state) to 22 (starttime) of proc(5).
  for (int field = 3; field <= 22; ++field) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    if (word.empty()) return std::nullopt;
    const auto number = [&](auto& out) {
      out = parse_number<std::remove_reference_t<decltype(out)>>(word).value_or(0);
    };
    switch (field) {
      case 3:
        state = word[0];
        break;
      case 4:
        number(process.parent);
        break;
      case 5:
        number(process.group);
        break;
      case 6:
        number(process.session);
        break;
      case 20:
        number(threads);
        break;
      case 22:
        number(process.start);
        break;
      default:
        break;
    }
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  }
  process.stopped = state == 'T' || state == 't';
  // A first thread that has ended is shown as a zombie while others of the process run on.
  process.alive = (state != 'Z' && state != 'X') || threads > 1;
  return process;
}

Result<void> become_subreaper() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) return from_errno("become subreaper", errno);
  return {};
}

Result<void> signal_group(pid_t group, int signal) {
  if (group <= 1)
    return fail(Code::InvalidRequest, "signal process group " + std::to_string(group) + ": not a command");
  if (::kill(-group, signal) == 0) return {};
  const int error = errno;
  Failure failure = from_errno("signal process group " + std::to_string(group), error);
  if (error == ESRCH) failure.error().code = Code::NotFound;
  return failure;
}

std::vector<Process> collect_tree(const ProcessTree& tree) { return members(tree, read_table(tree.proc)); }

int signal_tree(const ProcessTree& tree, int signal) {
  int reached = 0;
  for (const Process& process : collect_tree(tree)) reached += signal_verified(process, signal, tree.proc);
  return reached;
}

Result<void> kill_tree(const ProcessTree& tree, std::chrono::milliseconds limit) {
  const Deadline deadline(limit);
  for (;;) {
    if (tree.cgroup != nullptr) (void)tree.cgroup->kill();  // what it cannot do is done below
    const std::vector<Process> found = stop_all(tree, deadline);
    if (found.empty()) return {};
    const Table table = read_table(tree.proc);
    for (const pid_t group : whole_groups(found, found, table)) ::kill(-group, SIGKILL);
    for (const Process& process : found) signal_verified(process, SIGKILL, tree.proc);
    for (const Process& process : found) {
      if (const auto fd = open_verified(process, tree.proc)) wait_ended(fd->get(), deadline.left());
    }
    if (!deadline.passed()) continue;
    const std::size_t left = collect_tree(tree).size();
    if (left == 0) return {};
    return fail(Code::Timeout, "kill process tree of " + std::to_string(tree.leader) + ": " + std::to_string(left) +
                                   " processes are still there");
  }
}

}  // namespace osb::sys
