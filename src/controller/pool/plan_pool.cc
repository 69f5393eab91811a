#include "controller/pool/plan_pool.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "controller/names.h"
#include "kubernetes/object.h"

namespace osb::controller {
namespace {

int count(std::size_t n) { return static_cast<int>(n); }

class Planner {
 public:
  explicit Planner(const PoolState& state) : state_(state) {
    for (const PodFacts& each : state.pods) pods_.emplace(each.name, &each);
  }

  PoolPlan run() {
    find_holders();
    plan_returns();
    find_orphans();
    const bool open = state_.pool != nullptr && !state_.pool->deleting;
    grant(open);
    if (open) {
      remove_idle();
      scale();
    }
    sum_up();
    return std::move(plan_);
  }

 private:
  bool moved(const BatchSandbox& sandbox) const { return sandbox.pool != state_.name; }
  bool is_released(const BatchSandbox& sandbox, const std::string& pod) const {
    return sandbox.allocated.contains(pod) && sandbox.released.contains(pod);
  }
  // Counts pods of the pool; those of a former pool are not ours to count once they are given back.
  bool holds_elsewhere(const BatchSandbox& sandbox) const {
    return sandbox.holding_pool() != state_.name && !sandbox.held().empty();
  }
  std::vector<std::string> listed(const BatchSandbox& sandbox) const {
    return sandbox.holding_pool() == state_.name ? sandbox.allocated.pods : std::vector<std::string>();
  }
  bool idle(const PodFacts& pod) const {
    return !pod.deleting && pod.claim.empty() && !holder_.contains(pod.name) && !granted_.contains(pod.name);
  }

  // The pod's own claim decides; without one, the first sandbox that lists the pod.
  void find_holders() {
    std::map<std::string, const BatchSandbox*> by_uid;
    for (const BatchSandbox& each : state_.sandboxes) by_uid.emplace(each.uid, &each);
    for (const PodFacts& pod : state_.pods) {
      if (const auto found = by_uid.find(pod.claim); !pod.claim.empty() && found != by_uid.end()) {
        claimed_by_.emplace(pod.name, found->second);
        if (found->second->holding_pool() == state_.name && found->second->allocated.contains(pod.name) &&
            !is_released(*found->second, pod.name)) {
          holder_.emplace(pod.name, found->second);
        }
      }
    }
    for (const BatchSandbox& each : state_.sandboxes) {
      for (const std::string& pod : pods_without(listed(each), each.released.pods)) {
        if (pods_.contains(pod) && !claimed_by_.contains(pod)) holder_.emplace(pod, &each);
      }
    }
  }

  void plan_returns() {
    for (const BatchSandbox& each : state_.sandboxes) {
      const std::vector<std::string> held = pods_without(listed(each), each.released.pods);
      std::vector<std::string> back;
      // Tasks end before their pods go.
      const bool stopping_tasks = each.deleting && kubernetes::has_finalizer(*each.object, finalizers::kTasks);
      const bool all = (each.deleting && !stopping_tasks) || (moved(each) && !each.deleting);
      for (const std::string& pod : held) {
        if (all || each.release.contains(pod)) back.push_back(pod);
      }
      // With nothing to give back, a sandbox that is being deleted still waits for its finalizer to go.
      const bool done = each.deleting && !stopping_tasks && held.empty() &&
                        kubernetes::has_finalizer(*each.object, finalizers::kAllocation) && !holds_elsewhere(each);
      if (back.empty() && !done) continue;
      Return made{each.key, std::move(back)};
      for (const std::string& pod : made.pods) {
        const auto holder = holder_.find(pod);
        if (holder != holder_.end() && holder->second == &each && !pods_.at(pod)->deleting) made.recycle.push_back(pod);
      }
      plan_.returns.push_back(std::move(made));
    }
  }

  bool wants(const BatchSandbox& sandbox) const {
    return !sandbox.deleting && !moved(sandbox) && sandbox.problems.empty() && !holds_elsewhere(sandbox);
  }
  int missing(const BatchSandbox& sandbox) const {
    return wants(sandbox) ? std::max(0, sandbox.replicas - count(listed(sandbox).size())) : 0;
  }

  // Claims that did not become an allocation are completed if the sandbox still wants the pod.
  void find_orphans() {
    for (const PodFacts& pod : state_.pods) {
      if (pod.claim.empty() || pod.deleting || holder_.contains(pod.name)) continue;
      const auto claimed = claimed_by_.find(pod.name);
      if (claimed != claimed_by_.end() && !is_released(*claimed->second, pod.name)) {
        const BatchSandbox& sandbox = *claimed->second;
        // A record that cannot be read may list the pod.
        if (!sandbox.deleting && !sandbox.problems.empty()) {
          holder_.emplace(pod.name, &sandbox);
          continue;
        }
        auto& half_given = unfinished_[&sandbox];
        if (count(half_given.size()) < missing(sandbox)) {
          half_given.push_back(pod.name);
          granted_.insert(pod.name);
          continue;
        }
      }
      plan_.orphans.push_back(pod.name);
    }
  }

  void grant(bool open) {
    std::vector<const PodFacts*> free;
    for (const PodFacts& pod : state_.pods) {
      if (open && idle(pod) && pod.ready && !pod.evict) free.push_back(&pod);
    }
    const std::string revision = state_.pool != nullptr ? state_.pool->revision : "";
    std::ranges::sort(free, [&](const PodFacts* a, const PodFacts* b) {
      return std::tuple(a->revision != revision, a->created, a->name) <
             std::tuple(b->revision != revision, b->created, b->name);
    });
    auto next = free.begin();
    for (const BatchSandbox& sandbox : state_.sandboxes) {
      int left = missing(sandbox);
      if (left == 0) continue;
      std::vector<std::string> given;
      if (const auto half = unfinished_.find(&sandbox); half != unfinished_.end()) given = half->second;
      left -= count(given.size());
      for (; left > 0 && next != free.end(); ++next, --left) {
        given.push_back((*next)->name);
        granted_.insert((*next)->name);
      }
      if (!given.empty()) plan_.grants.push_back({sandbox.key, std::move(given)});
      if (left > 0) plan_.waits.push_back({sandbox.key, left});
      unmet_ += left;
    }
  }

  void remove(const PodFacts& pod, Removal::Why why) {
    plan_.removals.push_back({pod.name, why});
    removed_.insert(pod.name);
  }

  void remove_idle() {
    std::vector<const PodFacts*> outdated;
    int not_ready = 0, schedulable = 0;
    for (const PodFacts& pod : state_.pods) {
      if (pod.deleting) continue;
      if (pod.evict && idle(pod)) {
        remove(pod, Removal::Why::Evicted);
        continue;
      }
      if (idle(pod) && pod.finished()) {
        remove(pod, Removal::Why::Finished);
        continue;
      }
      ++schedulable;
      if (!pod.ready) ++not_ready;
      if (idle(pod) && pod.revision != state_.pool->revision && state_.pool->pod_template != nullptr) {
        outdated.push_back(&pod);
      }
    }
    int budget = state_.pool->update_unavailable.of(schedulable) - not_ready;
    const auto rank = [](const PodFacts& pod) { return pod.phase == "Pending" ? 0 : pod.phase == "Running" ? 2 : 1; };
    std::ranges::sort(outdated, [&](const PodFacts* a, const PodFacts* b) {
      return std::tuple(!a->node.empty(), rank(*a), a->ready, a->ready_since, -a->restarts) <
                 std::tuple(!b->node.empty(), rank(*b), b->ready, b->ready_since, -b->restarts) ||
             (std::tuple(!a->node.empty(), rank(*a), a->ready, a->ready_since, -a->restarts) ==
                  std::tuple(!b->node.empty(), rank(*b), b->ready, b->ready_since, -b->restarts) &&
              std::tuple(b->created, a->name) < std::tuple(a->created, b->name));
    });
    for (const PodFacts* pod : outdated) {
      if (pod->ready && budget <= 0) continue;
      if (pod->ready) --budget;
      remove(*pod, Removal::Why::Outdated);
      ++replaced_;
    }
  }

  void scale() {
    const Pool& pool = *state_.pool;
    if (!pool.problems.empty()) return;
    int total = 0, schedulable = 0, allocated = 0, not_ready = 0;
    std::vector<const PodFacts*> idle_pods;
    for (const PodFacts& pod : state_.pods) {
      if (pod.deleting) continue;
      ++total;
      if (pod.evict && idle(pod)) continue;
      const bool finished = idle(pod) && pod.finished();
      if (finished) continue;
      ++schedulable;
      if (!pod.ready) ++not_ready;
      if (!idle(pod)) {
        ++allocated;
      } else if (!removed_.contains(pod.name)) {
        idle_pods.push_back(&pod);
      }
    }
    const int buffer = schedulable - allocated;
    const bool inside = buffer >= pool.buffer_min && buffer <= pool.buffer_max;
    const int target = inside ? buffer : (pool.buffer_min + pool.buffer_max) / 2;
    const int desired = std::max(allocated + unmet_ + replaced_ + target, pool.pool_min);
    if (desired > schedulable) {
      const int most = std::min(desired - schedulable, pool.pool_max - total);
      plan_.creates = std::max(0, std::min(most, pool.scale_unavailable.of(desired) - not_ready));
    }
    int surplus = schedulable - desired;
    if (surplus <= 0) return;
    std::ranges::sort(idle_pods, [](const PodFacts* a, const PodFacts* b) {
      return std::tie(a->created, a->name) < std::tie(b->created, b->name);
    });
    for (const PodFacts* pod : idle_pods) {
      if (surplus-- <= 0) break;
      remove(*pod, Removal::Why::Surplus);
    }
  }

  void sum_up() {
    for (const PodFacts& pod : state_.pods) {
      if (pod.deleting) continue;
      ++plan_.total;
      if (!idle(pod)) ++plan_.allocated;
      if (idle(pod) && pod.ready && !pod.evict && !removed_.contains(pod.name)) ++plan_.available;
      if (state_.pool != nullptr && pod.revision == state_.pool->revision) ++plan_.updated;
    }
  }

  const PoolState& state_;
  std::map<std::string, const PodFacts*> pods_;
  std::map<std::string, const BatchSandbox*> claimed_by_, holder_;
  std::map<const BatchSandbox*, std::vector<std::string>> unfinished_;
  std::set<std::string> granted_, removed_;
  int unmet_ = 0, replaced_ = 0;
  PoolPlan plan_;
};

}  // namespace

PoolPlan plan_pool(const PoolState& state) { return Planner(state).run(); }

}  // namespace osb::controller
