#pragma once

#include <list>
#include <memory>
#include <span>
#include <vector>

#include "async/blocking_pool.h"
#include "async/child_reaper.h"
#include "async/net.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "execd/run/end_reason.h"
#include "execd/run/output_log.h"
#include "sys/cgroup_pool.h"
#include "sys/spawn.h"

namespace osb::execd {

// Shared by all runs of a daemon: the loop, the reaper, one read buffer, cgroups where the host allows them, and the
// pipes that outlive their run. The process should be a subreaper (or PID 1), so that killing a run also finds
// processes that lost their parent.
class RunHost {
 public:
  RunHost(net::any_io_executor executor, ChildReaper& reaper, BlockingPool& pool, sys::CgroupSources cgroups = {},
          OomKills oom_kills = {}, const Clock& clock = system_clock());
  ~RunHost();
  RunHost(const RunHost&) = delete;
  RunHost& operator=(const RunHost&) = delete;

  const net::any_io_executor& executor() const { return executor_; }
  ChildReaper& reaper() { return reaper_; }
  const Clock& clock() const { return clock_; }
  // Where process trees are searched and killed.
  BlockingPool& pool() { return pool_; }
  // For one read at a time: its content is used up before the reader goes back to the loop.
  std::span<char> buffer();

  // A child in a cgroup of its own, for ProcessTree::cgroup; null where there is none. The cgroup goes to another run
  // when all copies are gone, and no sooner than its last process has ended.
  struct Started {
    sys::Child child;
    sys::CgroupPool::Lease cgroup;
  };
  Result<Started> spawn(sys::SpawnPlan process);
  sys::CgroupPool& cgroups() { return cgroups_; }
  OomKills& oom_kills() { return oom_kills_; }

  // Reads a pipe until all its writers have closed it, so that a daemon that a command left behind neither blocks nor
  // gets SIGPIPE. The bytes go to `into` as long as that exists, else nowhere.
  void keep_draining(UniqueFd pipe, std::weak_ptr<OutputLog> into);
  std::size_t draining() const { return drains_.size(); }
  // Lets go of all such pipes.
  void close();
  // Removes all cgroups; when nothing runs any more, before the program ends.
  void close_cgroups();

 private:
  struct Drain;
  static void read_on(std::shared_ptr<Drain> drain);
  struct CgroupWatch;
  void watch_cgroups();

  net::any_io_executor executor_;
  ChildReaper& reaper_;
  BlockingPool& pool_;
  const Clock& clock_;
  std::vector<char> buffer_;
  std::list<std::shared_ptr<Drain>> drains_;
  sys::CgroupPool cgroups_;
  OomKills oom_kills_;
  std::shared_ptr<CgroupWatch> cgroup_watch_;  // while something is kept
};

}  // namespace osb::execd
