#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "sys/cgroup.h"

namespace osb::sys {

// Cgroups for commands, one each, all in one directory ("osb-execd-" and a random name) below our own cgroup. Empty
// ones are used again: making and removing one costs as much as a small command's exec. One whose command has ended but
// left processes behind is kept until these have ended.
//
// Nothing is looked at or made before the first lease(). Directories of such pools whose process has died without
// close() are then removed, if they have no members: a pool holds a lock on its directory as long as it lives. If no
// cgroup can be made, there are no leases.
//
// One thread. A lease may outlive the pool.
class CgroupPool {
 public:
  using Lease = std::shared_ptr<const Cgroup>;

  // `on_kept` is called each time a leaf has to be kept for what a command left behind.
  explicit CgroupPool(CgroupSources sources = {}, std::function<void()> on_kept = {});
  ~CgroupPool();
  CgroupPool(const CgroupPool&) = delete;
  CgroupPool& operator=(const CgroupPool&) = delete;

  // An empty cgroup for one user until the last copy is gone; null if there are no cgroups. Hold a copy while you kill
  // by it, because afterwards the next command may get it.
  Lease lease();
  // No more of them: processes cannot be put into them here.
  void give_up(std::string_view why);

  // Readable (poll, epoll) when something that is kept may be empty now; collect() then looks at it. -1 as long as
  // nothing has been kept.
  int events() const;
  void collect();
  std::size_t kept() const;
  std::size_t idle() const;

  // Removes all directories. Processes that commands have left behind go on in our own cgroup. The descriptor of
  // events() is closed, leases mean nothing any more, and there will be no new ones.
  void close();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace osb::sys
