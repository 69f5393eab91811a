#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "sys/cgroup_text.h"

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

// Names of the cgroups directly in a cgroup's directory.
std::vector<std::string> cgroups_in(const std::string& directory);

// A cgroup with all below it. Code::Conflict (EBUSY) while one has live members; an absent directory is a success.
Result<void> remove_cgroup(const std::string& directory);

// The processes directly in cgroup `from` to cgroup `to` of the same hierarchy. Code::Conflict if some remain.
Result<void> move_cgroup_members(const std::string& from, const std::string& to);

// One cgroup in one hierarchy: a directory with the kernel's files. A value that names it: the cgroup stays when the
// object goes. All calls block, and may come from any thread.
class Cgroup {
 public:
  enum class Kind { V2, V1Freezer, V1Other };
  Cgroup(std::string directory, Kind kind) : directory_(std::move(directory)), kind_(kind) {}
  // The files of `directory` tell its kind.
  static Cgroup at(std::string directory);

  const std::string& directory() const { return directory_; }
  Kind kind() const { return kind_; }
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
  // SIGKILL to all members, against which no fork helps: cgroup.kill, else while frozen (both return before they have
  // ended), else repeated until none is left. Code::Timeout when members do not stand still or die within seconds.
  Result<void> kill() const;
  // True when the last member has ended; false when the time is up.
  Result<bool> wait_empty(std::chrono::milliseconds limit) const;
  // Members, also those below, to the cgroup `directory` of the same hierarchy, so that this one can be removed while
  // they live.
  void move_members(const std::string& directory) const;
  Result<void> remove() const { return remove_cgroup(directory_); }

  // The others are for v2.

  // Nothing when the cgroup is gone.
  Result<std::optional<CgroupEvents>> events() const;
  // Until `reached` or the time is up, which is false.
  using Reached = std::function<bool(const std::optional<CgroupEvents>&)>;
  Result<bool> wait_events(std::chrono::milliseconds limit, const Reached& reached) const;
  // For an event loop: a descriptor with an exceptional condition (POLLPRI) after the events changed. Read it (from
  // offset 0) to be told again.
  Result<UniqueFd> open_events() const;

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
  Result<Cgroup> create_leaf(const std::string& name) const;

  // Names of cgroups here that begin with `prefix`.
  std::vector<std::string> leaves(std::string_view prefix) const;

  const std::string& directory() const { return directory_; }
  Cgroup::Kind kind() const { return kind_; }

  CommandCgroups(std::string directory, Cgroup::Kind kind) : directory_(std::move(directory)), kind_(kind) {}

 private:
  std::string directory_;
  Cgroup::Kind kind_;
};

}  // namespace osb::sys
