#include "controller/sandbox/sandbox_reconciler.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "controller/model/pod_template.h"
#include "controller/names.h"
#include "controller/pool/choose_pool.h"
#include "controller/queue/lanes.h"
#include "kubernetes/api_status.h"

namespace osb::controller {
namespace {

constexpr std::size_t kPodsAtOnce = 16;

}  // namespace

// One look at a sandbox.
struct SandboxReconciler::Pass {
  BatchSandbox sandbox;
  std::vector<PodFacts> pods = {};
  int lost = 0;
  std::optional<Error> create_failed = {};
  WorkQueue::Again again = {};

  void look_after(std::chrono::nanoseconds time) { again = again ? std::min(*again, time) : time; }
};

std::vector<PodFacts> SandboxReconciler::pods_of(const BatchSandbox& sandbox, int& lost) {
  std::vector<PodFacts> out;
  lost = 0;
  if (!sandbox.pooled()) {
    out = cluster_.pods_of(Kind::ReplicaPods, sandbox.uid);
    std::ranges::sort(out, [](const PodFacts& a, const PodFacts& b) {
      return std::tie(a.index, a.name) < std::tie(b.index, b.name);
    });
    return out;
  }
  int index = 0;
  for (const std::string& name : sandbox.allocated.pods) {
    const int place = index++;
    if (sandbox.release.contains(name) || sandbox.released.contains(name)) continue;
    ObjectPtr pod = cluster_.get(Kind::PoolPods, {sandbox.key.ns, name});
    // The pod's own claim decides between two sandboxes that list it.
    const auto claim = pod ? kubernetes::annotation(*pod, keys::kClaim) : std::string_view();
    if (!pod || (!claim.empty() && claim != sandbox.uid)) {
      // Pods of a former pool are on their way out.
      if (sandbox.holding_pool() == sandbox.pool) ++lost;
      continue;
    }
    out.push_back(cluster_.facts(std::move(pod)));
    out.back().index = place;
  }
  return out;
}

net::awaitable<Result<void>> SandboxReconciler::edit_finalizer(const BatchSandbox& sandbox, std::string_view name,
                                                               bool present) {
  const auto edit = [&](const json::object& newest) -> std::optional<json::object> {
    if (kubernetes::has_finalizer(newest, name) == present) return std::nullopt;
    if (present && kubernetes::is_deleting(newest)) return std::nullopt;
    json::object patch;
    set_finalizer(patch, newest, name, present);
    return patch;
  };
  auto done = co_await cluster_.change(Kind::Sandboxes, sandbox.object, edit);
  if (!done) co_return Failure(done.error());
  co_return Result<void>();
}

// True: the object was changed, and its event brings the next look.
net::awaitable<Result<bool>> SandboxReconciler::assign_pool(const BatchSandbox& sandbox) {
  std::vector<Pool> pools;
  for (ObjectPtr& each : cluster_.cache(Kind::Pools).list(sandbox.key.ns)) pools.push_back(Pool::read(std::move(each)));
  const std::string chosen = choose_pool(sandbox, pools);
  if (chosen.empty()) {
    waits_.set(sandbox.key, PoolWaits::Reason{"NoEligiblePool", "no pool of this namespace fits the template"});
    co_return false;
  }
  const auto assign = [&](const json::object& newest) -> std::optional<json::object> {
    if (kubernetes::text(newest, {"spec", "poolRef"}) != kAnyPool || kubernetes::is_deleting(newest))
      return std::nullopt;
    return json::object{{"spec", {{"poolRef", chosen}}}};
  };
  auto done = co_await cluster_.change(Kind::Sandboxes, sandbox.object, assign);
  if (!done) co_return Failure(done.error());
  waits_.set(sandbox.key, std::nullopt);
  co_return true;
}

net::awaitable<Result<WorkQueue::Again>> SandboxReconciler::reconcile(Key key) {
  ObjectPtr object = cluster_.get(Kind::Sandboxes, key);
  if (!object) {
    waits_.forget(key);
    watches_.forget(key);
    co_return WorkQueue::Again();
  }
  Pass pass{.sandbox = BatchSandbox::read(std::move(object))};
  BatchSandbox& sandbox = pass.sandbox;
  if (sandbox.expires && !sandbox.deleting) {
    const auto left = *sandbox.expires - std::chrono::floor<std::chrono::microseconds>(cluster_.clock().now());
    if (left.count() <= 0) {
      auto removed = co_await cluster_.remove(Kind::Sandboxes, sandbox.object);
      if (!removed) co_return Failure(removed.error());
      co_return WorkQueue::Again();
    }
    // A deadline far away is looked at again once a day: clocks are set, and timers do not reach centuries.
    pass.look_after(std::min<std::chrono::microseconds>(left, std::chrono::hours(24)));
  }
  pass.pods = pods_of(sandbox, pass.lost);
  if (sandbox.deleting) {
    tasks_.erase(sandbox.uid);
    waits_.forget(key);
    if (kubernetes::has_finalizer(*sandbox.object, finalizers::kTasks)) {
      if (auto ended = co_await end_tasks(pass); !ended) co_return Failure(ended.error());
    }
    co_return pass.again;
  }
  if (sandbox.pool == kAnyPool) {
    auto assigned = co_await assign_pool(sandbox);
    if (!assigned) co_return Failure(assigned.error());
    if (*assigned) co_return pass.again;
  }
  // A sandbox that left its pool before it had a record of it.
  if (!sandbox.pooled() && sandbox.allocated.pods.empty() && sandbox.problems.empty() &&
      kubernetes::has_finalizer(*sandbox.object, finalizers::kAllocation)) {
    if (auto done = co_await edit_finalizer(sandbox, finalizers::kAllocation, false); !done)
      co_return Failure(done.error());
  }
  if (sandbox.has_tasks && !kubernetes::has_finalizer(*sandbox.object, finalizers::kTasks)) {
    if (auto done = co_await edit_finalizer(sandbox, finalizers::kTasks, true); !done) co_return Failure(done.error());
  }
  bool tasks_stopped = true;
  if (sandbox.has_tasks && sandbox.phase() == "Pausing") {
    tasks_stopped = (co_await stop_tasks(executors_, pass.pods, follow(sandbox))).size() == pass.pods.size();
  }
  auto goes_on = co_await pauser_.step(sandbox, pass.pods, tasks_stopped);
  if (!goes_on) co_return Failure(goes_on.error());
  if (!*goes_on) co_return pass.again;
  if (!sandbox.pooled() && sandbox.phase() != "Paused" && sandbox.problems.empty()) co_await scale(pass);
  if (auto written = co_await write(pass); !written) co_return Failure(written.error());
  if (sandbox.has_tasks && sandbox.phase() != "Paused" && sandbox.problems.empty()) {
    if (auto done = co_await advance_tasks(pass); !done) co_return Failure(done.error());
  }
  if (sandbox.phase() == "Succeed") {
    if (auto dropped = co_await pauser_.drop_snapshot(sandbox); !dropped) co_return Failure(dropped.error());
  }
  if (pass.create_failed) co_return Failure(*pass.create_failed);
  co_return pass.again;
}

FollowTasks SandboxReconciler::follow(const BatchSandbox& sandbox) {
  return [this, key = sandbox.key](const std::string& address, const Result<TaskList>& answer) {
    watches_.follow(key, address, answer);
  };
}

net::awaitable<Result<void>> SandboxReconciler::end_tasks(Pass& pass) {
  const auto stopped = co_await stop_tasks(executors_, pass.pods, follow(pass.sandbox));
  if (stopped.size() < pass.pods.size()) co_return Result<void>();
  co_return co_await edit_finalizer(pass.sandbox, finalizers::kTasks, false);
}

net::awaitable<void> SandboxReconciler::scale(Pass& pass) {
  std::set<int> taken;
  for (const PodFacts& pod : pass.pods) taken.insert(pod.index);
  std::vector<int> missing;
  for (int i = 0; i < pass.sandbox.replicas; ++i) {
    if (!taken.contains(i)) missing.push_back(i);
  }
  if (missing.empty()) co_return;
  co_await for_each_at_once<int>(missing, kPodsAtOnce, [&](const int& index) { return create_replica(pass, index); });
  pass.pods = pods_of(pass.sandbox, pass.lost);
}

net::awaitable<void> SandboxReconciler::create_replica(Pass& pass, int index) {
  if (pass.create_failed) co_return;  // what one is refused for, all are
  auto pod = replica_pod(pass.sandbox, index);
  Result<json::object> made = pod ? co_await cluster_.create(Kind::ReplicaPods, pass.sandbox.key.ns, std::move(*pod))
                                  : Result<json::object>(Failure(pod.error()));
  const std::string name = replica_name(pass.sandbox, index);
  if (made) {
    cluster_.event(*pass.sandbox.object, false, "SuccessfulCreate", "Created pod: " + name);
    co_return;
  }
  Error error = made.error();
  if (kubernetes::already_exists(error))
    error.message = "pod " + name + " is there already and belongs to another owner";
  cluster_.event(*pass.sandbox.object, true, "FailedCreate", "Error creating pod " + name + ": " + error.message);
  pass.create_failed = std::move(error);
}

// Endpoints first: a client that sees the sandbox ready finds its address.
net::awaitable<Result<void>> SandboxReconciler::write(Pass& pass) {
  BatchSandbox& sandbox = pass.sandbox;
  const std::string endpoints = endpoints_of(pass.pods);
  const auto before = kubernetes::annotation(*sandbox.object, keys::kEndpoints);
  const bool first_and_empty = before.empty() && endpoints_of({}) == endpoints;
  const bool any_address = std::ranges::any_of(pass.pods, [](const PodFacts& pod) { return !pod.ip.empty(); });
  if (endpoints != before && !first_and_empty && (any_address || !before.empty())) {
    auto done = co_await cluster_.patch(Kind::Sandboxes, sandbox.key,
                                        {{"metadata", {{"annotations", {{keys::kEndpoints, endpoints}}}}}});
    if (!done && kubernetes::is_not_found(done.error())) co_return Result<void>();
    if (!done) co_return Failure(done.error());
  }
  SandboxView view{
      .pods = pass.pods, .lost = pass.lost, .wait = waits_.find(sandbox.key), .create_failed = pass.create_failed};
  if (const auto known = tasks_.find(sandbox.uid); known != tasks_.end()) view.tasks = known->second;
  view.now = format_timestamp(std::chrono::floor<std::chrono::seconds>(cluster_.clock().now()));
  json::object status = next_status(sandbox, view);
  if (!worth_writing(sandbox, status)) co_return Result<void>();
  auto done = co_await cluster_.patch(Kind::Sandboxes, sandbox.key, {{"status", std::move(status)}}, "status");
  if (!done && kubernetes::is_not_found(done.error())) co_return Result<void>();
  if (!done) co_return Failure(done.error());
  sandbox = BatchSandbox::read(std::make_shared<const json::object>(std::move(*done)));
  co_return Result<void>();
}

net::awaitable<Result<void>> SandboxReconciler::advance_tasks(Pass& pass) {
  const TaskRound round = co_await run_tasks(executors_, pass.sandbox, pass.pods, follow(pass.sandbox));
  if (round.problem) {
    cluster_.event(*pass.sandbox.object, true, "InvalidTask", round.problem->message);
    pass.sandbox.problems.push_back(round.problem->message);
  }
  tasks_[pass.sandbox.uid] = round.counts;
  if (auto written = co_await write(pass); !written) co_return written;
  if (pass.sandbox.releases_finished && pass.sandbox.pooled())
    co_return co_await release_finished(pass, round.finished);
  co_return Result<void>();
}

net::awaitable<Result<void>> SandboxReconciler::release_finished(Pass& pass, const std::vector<std::string>& finished) {
  std::vector<PodFacts> pods;
  for (const PodFacts& pod : pass.pods) {
    if (std::ranges::find(finished, pod.name) != finished.end()) pods.push_back(pod);
  }
  const auto stopped = co_await stop_tasks(executors_, pods, follow(pass.sandbox));
  const auto release = [&](const json::object& newest) -> std::optional<json::object> {
    PodList list = BatchSandbox::read(std::make_shared<const json::object>(newest)).release;
    const std::size_t before = list.pods.size();
    for (const std::string& each : stopped) {
      if (!list.contains(each)) list.pods.push_back(each);
    }
    if (list.pods.size() == before) return std::nullopt;
    std::ranges::sort(list.pods);
    return json::object{{"metadata", {{"annotations", {{keys::kRelease, list.to_json()}}}}}};
  };
  auto done = co_await cluster_.change(Kind::Sandboxes, pass.sandbox.object, release);
  if (!done) co_return Failure(done.error());
  co_return Result<void>();
}

}  // namespace osb::controller
