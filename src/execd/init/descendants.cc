#include "execd/init/descendants.h"

#include <csignal>
#include <dirent.h>
#include <memory>
#include <string_view>
#include <unistd.h>
#include <unordered_map>
#include <vector>

#include "base/deadline.h"
#include "base/parse_number.h"
#include "sys/pidfd.h"
#include "sys/process_tree.h"

namespace osb::execd {
namespace {

std::vector<sys::Process> all_processes() {
  std::vector<sys::Process> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir("/proc"), &::closedir);
  if (!dir) return out;
  while (const dirent* entry = ::readdir(dir.get())) {
    const auto pid = parse_number<pid_t>(entry->d_name);
    if (!pid) continue;
    if (const auto process = sys::read_process(*pid)) out.push_back(*process);
  }
  return out;
}

std::vector<sys::Process> descendants() {
  std::unordered_multimap<pid_t, sys::Process> children;
  for (const sys::Process& process : all_processes()) children.emplace(process.parent, process);
  std::vector<sys::Process> out;
  std::vector<pid_t> open = {::getpid()};
  while (!open.empty()) {
    const auto [begin, end] = children.equal_range(open.back());
    open.pop_back();
    for (auto it = begin; it != end; ++it) {
      open.push_back(it->second.pid);
      if (it->second.alive) out.push_back(it->second);
    }
  }
  return out;
}

void signal_one(const sys::Process& process, int number) {
  const auto pidfd = sys::open_pidfd(process.pid);
  if (!pidfd) return;
  // The pid may have come to mean another process since it was read.
  const auto now = sys::read_process(process.pid);
  if (now && now->start == process.start) (void)sys::send_signal(pidfd->get(), number);
}

}  // namespace

void signal_descendants(int number) {
  if (::getpid() == 1) {
    ::kill(-1, number);
    return;
  }
  for (const sys::Process& process : descendants()) signal_one(process, number);
}

Result<void> kill_descendants(std::chrono::milliseconds limit) {
  if (::getpid() == 1) {
    ::kill(-1, SIGKILL);  // reaches a process and what it has forked alike: nothing runs between
    return {};
  }
  const Deadline deadline(limit);
  for (;;) {
    const auto found = descendants();
    if (found.empty()) return {};
    const auto left = deadline.left();
    if (left.count() == 0) {
      return fail(Code::Timeout, "end processes: " + std::to_string(found.size()) + " are still there");
    }
    // Whole trees at a time; a process that loses its parent meanwhile becomes our child, and the next round finds it.
    for (const sys::Process& process : found) {
      if (process.parent != ::getpid()) continue;
      (void)sys::kill_tree({.leader = process.pid, .leader_start = process.start, .marker = "", .cgroup = nullptr},
                           left);
    }
  }
}

}  // namespace osb::execd
