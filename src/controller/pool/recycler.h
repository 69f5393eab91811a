#pragma once

#include <chrono>
#include <optional>

#include "async/net.h"
#include "controller/cluster.h"
#include "controller/model/pool.h"

namespace osb::controller {

// Makes a pod that a sandbox gives back fit for the next one, or ends it, as the pool's strategy says.
class Recycler {
 public:
  // `cluster` outlives it.
  explicit Recycler(Cluster& cluster) : cluster_(cluster) {}

  struct Outcome {
    bool done = false;
    bool pod_left = false;  // done, and the pod is there for others once its claim is taken away
    std::optional<std::chrono::nanoseconds> again = {};  // not done: look again then, if no event comes before
  };
  // `pool` null: it is gone, and its pods with it.
  net::awaitable<Result<Outcome>> recycle(const Pool* pool, PodFacts pod);
  // The pod is free again.
  net::awaitable<Result<void>> unclaim(PodFacts pod);

 private:
  net::awaitable<Result<Outcome>> restart(const Pool& pool, PodFacts pod);

  Cluster& cluster_;
};

}  // namespace osb::controller
