#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::sys {

struct SpawnPlan;

// Where the kernel says which cgroups there are; tests pass files of their own.
struct CgroupSources {
  std::string membership = "/proc/self/cgroup";
  std::string mounts = "/proc/self/mountinfo";
};

// The directories of this process's cgroups. Inside a container a hierarchy is often mounted with the container's own
// cgroup as its root, or the path is that of another namespace: then the mount point itself is ours.
struct CgroupDirectories {
  struct Directory {
    std::string mount;  // the topmost directory that can be seen
    std::string path;   // ours, at or below `mount`
  };
  std::optional<Directory> v2;
  std::map<std::string, Directory, std::less<>> v1;  // by controller ("memory", "cpu") or name ("name=systemd")
};

CgroupDirectories find_cgroups(const CgroupSources& sources = {});

// A cgroup made for one command, so that nothing it starts can hide. It has no limits. The directory stays when the
// object goes: remove() it.
class CommandCgroup {
 public:
  enum class Kind { V2, V1Freezer, V1Other };
  CommandCgroup(std::string directory, Kind kind) : directory_(std::move(directory)), kind_(kind) {}

  const std::string& directory() const { return directory_; }
  // For SpawnPlan::cgroup_procs. On v1 a task joins by itself: moving it from outside waits for an RCU period.
  std::string join_file() const { return directory_ + (kind_ == Kind::V2 ? "/cgroup.procs" : "/tasks"); }

  // Lets the child of `plan` begin its life in here, as far as the system allows it. The descriptor stays open until
  // spawn() has returned.
  Result<UniqueFd> enter(SpawnPlan& plan) const;

  // Members, also those of cgroups below it.
  std::vector<pid_t> pids() const;
  enum class Use {
    Free,    // no live member, here or below
    Busy,    // some
    Spoilt,  // none, but new processes would not run, or it is gone. Members may have frozen it; and after a kill()
             // Linux (6.18) at once kills what is born in it from outside (CLONE_INTO_CGROUP).
  };
  Use use() const;
  Kind kind() const { return kind_; }
  // SIGKILL to all members, against which no fork helps: cgroup.kill, else while frozen (both return before they have
  // ended), else repeated until none is left. Code::Timeout when members do not stand still or die within seconds.
  Result<void> kill() const;
  // To the cgroup `directory` of the same hierarchy, so that this one can be removed while they live.
  void move_members(const std::string& directory) const;
  // With all cgroups below. Fails (EBUSY) while there are live members; an absent directory is a success.
  Result<void> remove() const;

 private:
  std::string directory_;
  Kind kind_;
  std::shared_ptr<std::atomic<bool>> killed_ = std::make_shared<std::atomic<bool>>(false);  // of all copies
};

// Makes cgroups for commands below our own: in the v2 hierarchy if that can be written, else in a v1 hierarchy (freezer
// first: it can kill reliably). No cgroup at all is normal in an unprivileged container, so callers go on without one;
// joining can fail too (a threaded or delegated v2 tree), in which case spawn() names the step "join cgroup".
class CommandCgroups {
 public:
  // Nothing when no hierarchy lets us make directories.
  static std::optional<CommandCgroups> find(const CgroupSources& sources = {});

  // `name` is one path component that is not in use.
  Result<CommandCgroup> create_leaf(const std::string& name) const;

  // Names of cgroups here that begin with `prefix`.
  std::vector<std::string> leaves(std::string_view prefix) const;

  const std::string& directory() const { return directory_; }
  CommandCgroup::Kind kind() const { return kind_; }

  CommandCgroups(std::string directory, CommandCgroup::Kind kind) : directory_(std::move(directory)), kind_(kind) {}

 private:
  std::string directory_;
  CommandCgroup::Kind kind_;
};

}  // namespace osb::sys
