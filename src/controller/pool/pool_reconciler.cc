#include "controller/pool/pool_reconciler.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "base/concat.h"
#include "controller/model/pod_template.h"
#include "controller/names.h"
#include "controller/queue/lanes.h"
#include "kubernetes/api_status.h"

namespace osb::controller {
namespace {

constexpr std::size_t kGrantsAtOnce = 64, kReturnsAtOnce = 64, kPodsAtOnce = 16;

json::object annotations_patch(json::object annotations) {
  return {{"metadata", {{"annotations", std::move(annotations)}}}};
}

}  // namespace

void PoolWaits::set(const Key& sandbox, std::optional<Reason> reason) {
  const auto found = waits_.find(sandbox);
  if (!reason && found == waits_.end()) return;
  if (reason && found != waits_.end() && found->second == *reason) return;
  if (reason) {
    waits_[sandbox] = std::move(*reason);
  } else {
    waits_.erase(found);
  }
  changed_(sandbox);
}

const PoolWaits::Reason* PoolWaits::find(const Key& sandbox) const {
  const auto found = waits_.find(sandbox);
  return found == waits_.end() ? nullptr : &found->second;
}

void Arrivals::saw(const ObjectPtr& before, const ObjectPtr& after) {
  if (after && !before) order_.try_emplace(std::string(kubernetes::uid_of(*after)), next_++);
  if (!after) order_.erase(std::string(kubernetes::uid_of(*before)));
}

std::uint64_t Arrivals::of(std::string_view uid) const {
  const auto found = order_.find(uid);
  return found == order_.end() ? 0 : found->second;
}

// One look at a pool.
struct PoolReconciler::Pass {
  Key key;
  std::optional<Pool> pool = {};
  PoolState state = {};
  PoolPlan plan = {};
  std::optional<Error> failed = {};  // the first failure; the key comes again
  std::optional<std::chrono::nanoseconds> again = {};

  void failure(const Error& error) {
    if (!failed) failed = error;
  }
  void look_after(std::chrono::nanoseconds time) { again = again ? std::min(*again, time) : time; }
  const PodFacts* pod(const std::string& name) const {
    const auto found = std::ranges::find(state.pods, name, &PodFacts::name);
    return found == state.pods.end() ? nullptr : &*found;
  }
  const BatchSandbox* sandbox(const Key& wanted) const {
    const auto found = std::ranges::find(state.sandboxes, wanted, &BatchSandbox::key);
    return found == state.sandboxes.end() ? nullptr : &*found;
  }
};

PoolState PoolReconciler::look(const Key& key, const Pool* pool) {
  PoolState out{pool, key.name, {}, {}};
  if (pool != nullptr) out.pods = cluster_.pods_of(Kind::PoolPods, pool->uid);
  for (ObjectPtr& each : cluster_.cache(Kind::Sandboxes).find(kByPool, key.to_string())) {
    out.sandboxes.push_back(BatchSandbox::read(std::move(each)));
  }
  std::ranges::sort(out.sandboxes, [this](const BatchSandbox& a, const BatchSandbox& b) {
    return std::tuple(std::string_view(a.created), arrivals_.of(a.uid)) <
           std::tuple(std::string_view(b.created), arrivals_.of(b.uid));
  });
  return out;
}

net::awaitable<Result<WorkQueue::Again>> PoolReconciler::reconcile(Key key) {
  Pass pass{.key = key};
  if (ObjectPtr object = cluster_.get(Kind::Pools, key)) pass.pool = Pool::read(std::move(object));
  pass.state = look(key, pass.pool ? &*pass.pool : nullptr);
  pass.plan = plan_pool(pass.state);
  if (pass.pool && !pass.pool->problems.empty()) {
    cluster_.event(*pass.pool->object, true, "InvalidSpec", pass.pool->problems.front());
  }
  co_await for_each_at_once<Grant>(pass.plan.grants, kGrantsAtOnce,
                                   [&](const Grant& each) { return grant(pass, each); });
  note_waits(pass);
  co_await for_each_at_once<Return>(pass.plan.returns, kReturnsAtOnce,
                                    [&](const Return& each) { return take_back(pass, each); });
  co_await for_each_at_once<std::string>(pass.plan.orphans, kReturnsAtOnce,
                                         [&](const std::string& each) { return recycle_orphan(pass, each); });
  co_await for_each_at_once<Removal>(pass.plan.removals, kPodsAtOnce,
                                     [&](const Removal& each) { return remove(pass, each); });
  co_await create_pods(pass, pass.plan.creates);
  if (pass.pool && !pass.pool->deleting) co_await write_status(pass);
  if (pass.failed) co_return Failure(*pass.failed);
  co_return pass.again;
}

// The pod says whose it is before the sandbox does: a pod that two writers want has one winner, and a pod that was
// used is never taken for a fresh one.
net::awaitable<bool> PoolReconciler::claim(Pass& pass, const std::string& name, const BatchSandbox& sandbox) {
  const PodFacts* pod = pass.pod(name);
  if (pod == nullptr) co_return false;
  if (pod->claim == sandbox.uid) co_return true;
  json::object patch = annotations_patch({{keys::kClaim, sandbox.uid}});
  kubernetes::make_object(patch, {"metadata"})["resourceVersion"] = kubernetes::version_of(*pod->object);
  const auto done = co_await cluster_.patch(Kind::PoolPods, {pass.key.ns, name}, std::move(patch));
  if (done) co_return true;
  // A pod that has changed or is gone: its event brings the next look.
  if (!kubernetes::is_conflict(done.error()) && !kubernetes::is_not_found(done.error())) pass.failure(done.error());
  co_return false;
}

net::awaitable<void> PoolReconciler::grant(Pass& pass, const Grant& grant) {
  const BatchSandbox& sandbox = *pass.sandbox(grant.sandbox);
  std::vector<std::string> won;
  for (const std::string& pod : grant.pods) {
    if (co_await claim(pass, pod, sandbox)) won.push_back(pod);
  }
  if (won.empty()) co_return;
  const auto record = [&](const json::object& newest) -> std::optional<json::object> {
    const BatchSandbox now = BatchSandbox::read(std::make_shared<const json::object>(newest));
    // The sandbox changed meanwhile: the next look decides. The claims stay, and are completed or taken back then.
    if (now.deleting || now.pool != pass.key.name || !now.problems.empty()) return std::nullopt;
    const bool fresh = now.holding_pool() != pass.key.name && now.held().empty();
    if (!fresh && now.allocated.pods != sandbox.allocated.pods) return std::nullopt;
    PodList all{fresh ? std::vector<std::string>() : now.allocated.pods, pass.key.name};
    all.pods.insert(all.pods.end(), won.begin(), won.end());
    json::array endpoints;
    for (const std::string& name : all.pods) {
      const PodFacts* pod = pass.pod(name);
      if (!now.release.contains(name) || fresh) endpoints.emplace_back(pod == nullptr ? "" : pod->ip);
    }
    json::object annotations{{keys::kAllocated, all.to_json()}, {keys::kEndpoints, json::serialize(endpoints)}};
    if (fresh) {
      annotations[keys::kRelease] = nullptr;
      annotations[keys::kReleased] = nullptr;
    }
    json::object patch = annotations_patch(std::move(annotations));
    set_finalizer(patch, newest, finalizers::kAllocation, true);
    return patch;
  };
  const auto done = co_await cluster_.change(Kind::Sandboxes, sandbox.object, record);
  if (!done) {
    pass.failure(done.error());
  } else if (*done) {
    grants_ += won.size();
  }
}

net::awaitable<void> PoolReconciler::take_back(Pass& pass, const Return& back) {
  const BatchSandbox& sandbox = *pass.sandbox(back.sandbox);
  std::vector<std::string> done = pods_without(back.pods, back.recycle);
  std::vector<PodFacts> left;
  for (const std::string& name : back.recycle) {
    PodFacts pod = *pass.pod(name);
    auto outcome = co_await recycler_.recycle(pass.pool ? &*pass.pool : nullptr, pod);
    if (!outcome) {
      pass.failure(outcome.error());
      continue;
    }
    if (outcome->again) pass.look_after(*outcome->again);
    if (!outcome->done) continue;
    done.push_back(name);
    if (outcome->pod_left) left.push_back(std::move(pod));
  }
  const auto record = [&](const json::object& newest) -> std::optional<json::object> {
    const BatchSandbox now = BatchSandbox::read(std::make_shared<const json::object>(newest));
    PodList released{now.released.pods, ""};
    for (const std::string& each : done) {
      if (!released.contains(each)) released.pods.push_back(each);
    }
    const bool all = pods_without(now.allocated.pods, released.pods).empty();
    json::object annotations;
    if (released.pods != now.released.pods) annotations[keys::kReleased] = released.to_json();
    const bool detached = !now.deleting && now.pool.empty() && all;
    if (detached) {
      for (const auto key : {keys::kAllocated, keys::kRelease, keys::kReleased}) annotations[key] = nullptr;
    }
    json::object patch;
    if (!annotations.empty()) patch = annotations_patch(std::move(annotations));
    const bool last = ((now.deleting && all) || detached) && kubernetes::has_finalizer(newest, finalizers::kAllocation);
    if (last) set_finalizer(patch, newest, finalizers::kAllocation, false);
    if (patch.empty()) return std::nullopt;
    return patch;
  };
  const auto written = co_await cluster_.change(Kind::Sandboxes, sandbox.object, record);
  if (!written) {
    pass.failure(written.error());
    co_return;
  }
  for (PodFacts& pod : left) {
    if (auto freed = co_await recycler_.unclaim(std::move(pod)); !freed) pass.failure(freed.error());
  }
}

net::awaitable<void> PoolReconciler::recycle_orphan(Pass& pass, const std::string& name) {
  PodFacts pod = *pass.pod(name);
  auto outcome = co_await recycler_.recycle(pass.pool ? &*pass.pool : nullptr, pod);
  if (!outcome) {
    pass.failure(outcome.error());
    co_return;
  }
  if (outcome->again) pass.look_after(*outcome->again);
  if (!outcome->pod_left) co_return;
  if (auto freed = co_await recycler_.unclaim(std::move(pod)); !freed) pass.failure(freed.error());
}

net::awaitable<void> PoolReconciler::remove(Pass& pass, const Removal& removal) {
  const PodFacts pod = *pass.pod(removal.pod);
  // A pod that another controller has given away meanwhile is not idle.
  auto done = co_await cluster_.remove(Kind::PoolPods, pod.object, true);
  if (!done) {
    pass.failure(done.error());
  } else if (removal.why == Removal::Why::Evicted) {
    cluster_.event(*pass.pool->object, false, "PodEvicted", "Evicted pod " + removal.pod);
  }
}

net::awaitable<void> PoolReconciler::create_pods(Pass& pass, int count) {
  if (count <= 0) co_return;
  auto pod = pool_pod(*pass.pool);
  if (!pod) {
    cluster_.event(*pass.pool->object, true, "FailedCreate", pod.error().message);
    pass.failure(pod.error());
    co_return;
  }
  const std::vector<int> numbers(static_cast<std::size_t>(count));
  bool refused = false;  // what one is refused for, all are
  co_await for_each_at_once<int>(numbers, kPodsAtOnce, [&](const int&) -> net::awaitable<void> {
    if (refused) co_return;
    const auto made = co_await cluster_.create(Kind::PoolPods, pass.key.ns, *pod);
    if (made) {
      cluster_.event(*pass.pool->object, false, "SuccessfulCreate", "Created pod: " + kubernetes::key_of(*made).name);
      co_return;
    }
    refused = true;
    cluster_.event(*pass.pool->object, true, "FailedCreate", "Error creating: " + made.error().message);
    pass.failure(made.error());
  });
}

net::awaitable<void> PoolReconciler::write_status(Pass& pass) {
  const PoolPlan& plan = pass.plan;
  const json::object status{{"observedGeneration", pass.pool->generation},
                            {"revision", pass.pool->revision},
                            {"total", plan.total},
                            {"allocated", plan.allocated},
                            {"available", plan.available},
                            {"updated", plan.updated}};
  const json::value* before = pass.pool->object->if_contains("status");
  if (before != nullptr && *before == json::value(status)) co_return;
  const auto done = co_await cluster_.patch(Kind::Pools, pass.key, {{"status", status}}, "status");
  if (!done && !kubernetes::is_not_found(done.error())) pass.failure(done.error());
}

void PoolReconciler::note_waits(const Pass& pass) {
  std::map<Key, int> missing;
  for (const Wait& each : pass.plan.waits) missing.emplace(each.sandbox, each.missing);
  for (const BatchSandbox& sandbox : pass.state.sandboxes) {
    if (sandbox.pool != pass.key.name) continue;
    const auto waits = missing.find(sandbox.key);
    if (waits == missing.end()) {
      waits_.set(sandbox.key, std::nullopt);
    } else if (!pass.pool || pass.pool->deleting) {
      waits_.set(sandbox.key, PoolWaits::Reason{"PoolNotFound", "there is no pool " + pass.key.name});
    } else if (!pass.pool->problems.empty()) {
      waits_.set(sandbox.key,
                 PoolWaits::Reason{"PoolInvalid", "pool " + pass.key.name + ": " + pass.pool->problems.front()});
    } else if (pass.plan.total >= pass.pool->pool_max) {
      waits_.set(sandbox.key, PoolWaits::Reason{"PoolExhausted", concat("pool ", pass.key.name, " has its most pods (",
                                                                        pass.pool->pool_max, ") and none is free")});
    } else {
      waits_.set(sandbox.key, PoolWaits::Reason{"PodsStarting",
                                                concat("waits for ", waits->second, " pods of pool ", pass.key.name)});
    }
  }
}

}  // namespace osb::controller
