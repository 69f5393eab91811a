#pragma once

#include <string>
#include <vector>

#include "controller/model/batch_sandbox.h"
#include "controller/model/pod_facts.h"
#include "controller/model/pool.h"

namespace osb::controller {

// The state of one pool as its planner sees it.
struct PoolState {
  const Pool* pool = nullptr;  // null: it is gone; sandboxes still have to give back its pods
  std::string name;
  std::vector<PodFacts> pods;           // that the pool owns
  std::vector<BatchSandbox> sandboxes;  // that want or hold pods of the pool, first come first
};

// Pods for a sandbox, in the order of its replicas.
struct Grant {
  Key sandbox;
  std::vector<std::string> pods;
};
// Pods that a sandbox gives back. They may be gone already, or belong to another sandbox: only those of `recycle` are
// its own and there.
struct Return {
  Key sandbox;
  std::vector<std::string> pods;
  std::vector<std::string> recycle = {};
};
struct Removal {
  std::string pod;
  enum class Why { Evicted, Finished, Outdated, Surplus } why;
  bool operator==(const Removal&) const = default;
};
// A sandbox that has not got all its pods.
struct Wait {
  Key sandbox;
  int missing = 0;
};

struct PoolPlan {
  std::vector<Grant> grants;
  std::vector<Return> returns;
  std::vector<std::string> orphans;  // claimed by a sandbox that neither holds nor wants them: recycle them
  std::vector<Removal> removals;
  std::vector<Wait> waits;
  int creates = 0;
  // For the status.
  int total = 0, allocated = 0, available = 0, updated = 0;
};

// Decides everything, does nothing. First come, first served: a sandbox gets pods only when those before it have all
// of theirs, but it gets what there is, even if that is not enough. A pod is given to one sandbox, and again only
// after it was recycled.
PoolPlan plan_pool(const PoolState& state);

}  // namespace osb::controller
