#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sandboxd/sandbox/host_parts.h"
#include "sandboxd/sandbox/pool_future.h"
#include "sandboxd/sandbox/ready_roots.h"
#include "sandboxd/sandbox/sandbox_config.h"
#include "sandboxd/sandbox/sandbox_plan.h"
#include "sandboxd/sandbox/sandbox_record.h"
#include "sandboxd/sandbox/teardown.h"

namespace osb::sandboxd {

// The parts that make reservations. They outlive them.
struct ReservationParts {
  const SandboxConfig& config;
  const HostParts& host;
  ReadyDirectories& directories;
  ReadyRoots& roots;
  const Teardown& teardown;
};

// A sandbox that is being made: directory, slot, volumes, cgroup, process and ports, as far as they have been taken.
// The destructor gives all of them back and removes the directory, unless commit() was called. One thread.
class Reservation {
 public:
  // A pool thread begins to make the cgroup: that takes as long as the rest. `record` and `plan` outlive this.
  Reservation(const ReservationParts& parts, const SandboxPlan& plan, SandboxRecord& record);
  ~Reservation();
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  // Takes directory, slot and volumes, and notes them in the record, which is on disk where a crash would leave
  // something that cannot be found by the sandbox's id.
  Result<void> take();
  // The launch of the plan in what was taken. Once, after take().
  Result<LaunchPlan> launch_plan();
  // Waits for the cgroup and enters it into the plan. Its descriptors are open as long as this lives.
  Result<void> join_cgroup(CgroupPlan& plan);
  // After join_cgroup(): counters of the cgroup that cannot be seen inside.
  const std::vector<std::pair<std::string, UniqueFd>>& hidden_stats() const { return cgroup_.hidden_stats; }
  // Publishes the plan's ports and notes them in the record.
  Result<void> publish_ports();

  LiveSandbox& live() { return live_; }
  // The host's id of the sandbox's user.
  uid_t owner() const { return live_.slot->id_base + plan_.user.uid; }

  // The sandbox is whole: nothing is given back.
  LiveSandbox commit();

 private:
  Result<void> take_root();
  Result<void> take_volumes();
  Result<void> note_new_volumes();
  Result<void> wait_for_cgroup();
  Result<void> save() const { return save_record(directory_, record_); }

  const ReservationParts& parts_;
  const SandboxPlan& plan_;
  SandboxRecord& record_;
  const std::string directory_;
  bool committed_ = false;
  LiveSandbox live_;
  std::optional<RootKind> kind_;
  std::optional<Stage> stage_;
  std::vector<PreparedMount> mounts_;
  NewCgroup cgroup_;  // without the group, which is live_'s
  bool cgroup_awaited_ = false;
  PoolFuture<Result<NewCgroup>> pending_cgroup_;
};

// The firewall's name for a port of a request or record.
PublishedPort published_port(const api::native::PublishedPort& port, unsigned slot);

}  // namespace osb::sandboxd
