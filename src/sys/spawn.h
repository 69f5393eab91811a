#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "base/error.h"
#include "sys/child.h"

namespace osb::sys {

// Everything about a child process, decided before it exists: after clone the child touches prepared memory only.
struct SpawnPlan {
  // A path; not searched in PATH (find_program does that). A relative one is looked up below `cwd`.
  std::string program;
  // The same program, open: its user then need not be able to reach `program`, except for a script.
  int program_fd = -1;
  std::vector<std::string> argv;  // argv[0] included
  std::vector<std::string> env;   // "KEY=value", the whole environment
  // Empty: the parent's. Not through links of /proc to what a process has open (ELOOP); other links are followed.
  std::string cwd;
  // Descriptors of the child: {number in the child, descriptor here}. Everything else is closed on exec. Numbers 0, 1
  // and 2 that are not named become /dev/null; where there is none, a pipe that is at its end and cannot be written.
  std::vector<std::pair<int, int>> fds;

  enum class Group { Inherit, NewGroup, NewSession };
  Group group = Group::NewGroup;
  int controlling_tty = -1;  // with NewSession: the child's number (not the parent's) of the terminal to acquire

  std::optional<uid_t> uid;
  std::optional<gid_t> gid;
  // Supplementary groups. Absent with a uid other than ours: none, so that ours never leak to another user.
  std::optional<std::vector<gid_t>> groups;
  int namespaces = 0;                     // CLONE_NEW* flags
  std::vector<std::string> cgroup_procs;  // files the child writes "0" to before exec (joins these cgroups)
  // One more cgroup, joined if the system lets us (Child::in_cgroup tells; Cgroup::enter sets one of the two):
  int cgroup_fd = -1;        // a v2 directory: the child is born there, which costs next to nothing (clone3)
  int cgroup_tasks_fd = -1;  // the `tasks` file of a v1 one, open for writing
  std::optional<int> oom_score_adj;
};

// Like vfork: the caller sleeps until exec has happened, nothing is copied, and the cost does not follow our size.
// A child that cannot be set up or exec'd is reaped and reported as an error that names the step and the program
// (exec errors keep their errno). Signals are reset to default and unblocked in the child. The steps' order: cgroups
// and oom_score_adj, session, descriptors, terminal, groups and ids, cwd (as the new user), exec. May be called from
// any thread. Does not need descriptors 0, 1 and 2 to be open here.
Result<Child> spawn(const SpawnPlan& plan);

// `name` in the directories of `path` ("/usr/bin:/bin"); a name with a slash is returned as it is.
std::optional<std::string> find_program(const std::string& name, std::string_view path);

}  // namespace osb::sys
