#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "async/net.h"
#include "controller/cluster.h"
#include "controller/pool/plan_pool.h"
#include "controller/pool/recycler.h"
#include "controller/queue/work_queue.h"

namespace osb::controller {

// Sandboxes that wait for pods of a pool, with the reason, for their conditions. In memory only: it is computed anew by
// every look at a pool.
class PoolWaits {
 public:
  explicit PoolWaits(std::function<void(const Key&)> changed) : changed_(std::move(changed)) {}
  struct Reason {
    std::string reason, message;
    bool operator==(const Reason&) const = default;
  };
  void set(const Key& sandbox, std::optional<Reason> reason);
  const Reason* find(const Key& sandbox) const;
  void forget(const Key& sandbox) { waits_.erase(sandbox); }

 private:
  std::function<void(const Key&)> changed_;
  std::map<Key, Reason> waits_;
};

// The order in which sandboxes were first seen, for those that were made in the same second.
class Arrivals {
 public:
  void saw(const ObjectPtr& before, const ObjectPtr& after);
  std::uint64_t of(std::string_view uid) const;

 private:
  std::map<std::string, std::uint64_t, std::less<>> order_;
  std::uint64_t next_ = 0;
};

// Keeps one pool as its object wants it: pods given to sandboxes and taken back, spare pods, status. The plan is
// plan_pool(); here it is carried out. A sandbox or pod that fails does not hold up the others.
class PoolReconciler {
 public:
  // All outlive it.
  PoolReconciler(Cluster& cluster, PoolWaits& waits, const Arrivals& arrivals)
      : cluster_(cluster), waits_(waits), arrivals_(arrivals), recycler_(cluster) {}

  net::awaitable<Result<WorkQueue::Again>> reconcile(Key key);
  std::uint64_t grants() const { return grants_; }

 private:
  struct Pass;
  PoolState look(const Key& key, const Pool* pool);
  net::awaitable<void> grant(Pass& pass, const Grant& grant);
  net::awaitable<bool> claim(Pass& pass, const std::string& pod, const BatchSandbox& sandbox);
  net::awaitable<void> take_back(Pass& pass, const Return& back);
  net::awaitable<void> recycle_orphan(Pass& pass, const std::string& pod);
  net::awaitable<void> remove(Pass& pass, const Removal& removal);
  net::awaitable<void> create_pods(Pass& pass, int count);
  net::awaitable<void> write_status(Pass& pass);
  void note_waits(const Pass& pass);

  Cluster& cluster_;
  PoolWaits& waits_;
  const Arrivals& arrivals_;
  Recycler recycler_;
  std::uint64_t grants_ = 0;
};

}  // namespace osb::controller
