#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/error.h"

namespace osb::sys {

class Cgroup;

// One line of /proc/PID/stat. Pid and start time together name a process for good: pids are reused.
struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  std::uint64_t start = 0;  // clock ticks since boot
  bool alive = false;       // false: a zombie, whose pid is all that is left
  bool stopped = false;
};

std::optional<Process> read_process(pid_t pid, const std::string& proc = "/proc");

// A command and all its descendants. Its members:
//  1. the members of its own cgroup, where it has one;
//  2. the leader, its process group, its session, and all their descendants;
//  3. processes that were re-parented to us and carry the marker in their environment, and all their descendants.
// Only (1) holds against a process that changes session, loses its parent and has cleared its environment. (3) needs
// the right to read /proc/PID/environ: of other users' processes only with CAP_SYS_PTRACE.
struct ProcessTree {
  pid_t leader = 0;
  // Its start time, from read_process() before it is reaped; 0: not known. Once the pid means another process, (2)
  // no longer applies.
  std::uint64_t leader_start = 0;
  std::string marker;              // "NAME=value", different for each command; empty: none
  const Cgroup* cgroup = nullptr;  // outlives the call
  std::string proc = "/proc";
};

// Orphaned descendants become our children instead of init's. PID 1 needs no such thing.
Result<void> become_subreaper();

// To all members of a process group. Code::NotFound when it has none.
Result<void> signal_group(pid_t group, int signal);

// The members that are alive now; never this process.
std::vector<Process> collect_tree(const ProcessTree& tree);

// To each member, for a polite SIGTERM. Returns how many got it.
int signal_tree(const ProcessTree& tree, int signal);

// Ends them all: kills the cgroup, stops members until a scan finds no new ones (the stopped do not fork, so a fork
// bomb loses), kills them, waits for their end and scans again, until none is left. A signal to a process goes through
// a pidfd whose start time was checked, so a reused pid is never hit; groups all of whose members belong to the tree
// are signalled at once. Zombies are left to the process that reaps them. Without a cgroup one thing may escape: a
// process that forks and exits faster than it can be looked at. Blocks, usually for a millisecond, at most about
// `limit` (Code::Timeout: a process in the kernel's hands does not die): call it where blocking is allowed.
Result<void> kill_tree(const ProcessTree& tree, std::chrono::milliseconds limit = std::chrono::seconds(5));

}  // namespace osb::sys
