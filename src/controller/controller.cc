#include "controller/controller.h"

#include <algorithm>
#include <utility>

#include <boost/json/array.hpp>

#include "async/race.h"
#include "base/log.h"
#include "controller/names.h"

namespace osb::controller {
namespace {

// Adds the owners of this kind to a queue.
void add_owners(WorkQueue& queue, const json::object& object, std::string_view kind) {
  const json::value* owners = kubernetes::find(object, {"metadata", "ownerReferences"});
  if (owners == nullptr || !owners->is_array()) return;
  for (const json::value& each : owners->get_array()) {
    if (!each.is_object() || kubernetes::text(each.get_object(), {"kind"}) != kind) continue;
    queue.add({kubernetes::key_of(object).ns, std::string(kubernetes::text(each.get_object(), {"name"}))});
  }
}

}  // namespace

Controller::Controller(net::any_io_executor executor, kubernetes::Client& client, TaskExecutors& executors,
                       ControllerOptions options)
    : client_(client),
      events_(executor, client, {.component = "opensandbox-controller", .host = options.host}),
      cluster_(executor, client, events_, options.ns),
      waits_([this](const Key& sandbox) { sandbox_queue_.add(sandbox); }),
      watches_(
          executor, executors, [&client](std::chrono::nanoseconds time) { return client.sleep(time); },
          [this](const Key& sandbox) { sandbox_queue_.add(sandbox); }),
      sandboxes_(cluster_, waits_, executors, watches_, options.pause),
      pools_(cluster_, waits_, arrivals_),
      snapshots_(cluster_, options.snapshots),
      sandbox_queue_(executor, queue_options("batchsandbox", options.sandbox_workers),
                     [this](Key key) { return sandboxes_.reconcile(std::move(key)); }),
      pool_queue_(executor, queue_options("pool", options.pool_workers),
                  [this](Key key) { return pools_.reconcile(std::move(key)); }),
      snapshot_queue_(executor, queue_options("snapshot", options.snapshot_workers),
                      [this](Key key) { return snapshots_.reconcile(std::move(key)); }) {
  follow_sandboxes();
  follow_pools();
  follow_pods();
  follow_snapshots();
}

WorkQueue::Options Controller::queue_options(std::string name, std::size_t workers) const {
  WorkQueue::Options out;
  out.name = std::move(name);
  out.workers = workers;
  out.clock = &client_.clock();
  out.sleep = [this](std::chrono::nanoseconds time) { return client_.sleep(time); };
  return out;
}

void Controller::follow_sandboxes() {
  cluster_.cache(Kind::Sandboxes).on_change([this](const ObjectPtr& before, const ObjectPtr& after) {
    arrivals_.saw(before, after);
    const json::object& object = after ? *after : *before;
    sandbox_queue_.add(kubernetes::key_of(object));
    // The pools that it wants or holds pods of, before and now.
    for (const ObjectPtr& each : {before, after}) {
      if (!each) continue;
      const BatchSandbox sandbox = BatchSandbox::read(each);
      if (sandbox.pooled() && sandbox.pool != kAnyPool) pool_queue_.add({sandbox.key.ns, sandbox.pool});
      if (!sandbox.allocated.pool.empty()) pool_queue_.add({sandbox.key.ns, sandbox.allocated.pool});
    }
    const std::string key = kubernetes::key_of(object).to_string();
    for (const ObjectPtr& snapshot : cluster_.cache(Kind::Snapshots).find(kBySandbox, key)) {
      snapshot_queue_.add(kubernetes::key_of(*snapshot));
    }
  });
}

void Controller::follow_pools() {
  cluster_.cache(Kind::Pools).on_change([this](const ObjectPtr& before, const ObjectPtr& after) {
    const Key key = kubernetes::key_of(after ? *after : *before);
    pool_queue_.add(key);
    // A new pool may be the one for sandboxes that take any.
    for (const ObjectPtr& each : cluster_.cache(Kind::Sandboxes).find(kByPool, key.ns + "/" + std::string(kAnyPool))) {
      sandbox_queue_.add(kubernetes::key_of(*each));
    }
  });
}

void Controller::follow_pods() {
  cluster_.cache(Kind::ReplicaPods).on_change([this](const ObjectPtr& before, const ObjectPtr& after) {
    add_owners(sandbox_queue_, after ? *after : *before, kBatchSandboxes.kind);
  });
  cluster_.cache(Kind::PoolPods).on_change([this](const ObjectPtr& before, const ObjectPtr& after) {
    const json::object& pod = after ? *after : *before;
    const Key key = kubernetes::key_of(pod);
    add_owners(pool_queue_, pod, kPools.kind);
    for (const ObjectPtr& each : cluster_.cache(Kind::Sandboxes).find(kByPod, key.to_string())) {
      sandbox_queue_.add(kubernetes::key_of(*each));
    }
  });
}

void Controller::follow_snapshots() {
  cluster_.cache(Kind::Snapshots).on_change([this](const ObjectPtr& before, const ObjectPtr& after) {
    const json::object& snapshot = after ? *after : *before;
    const Key key = kubernetes::key_of(snapshot);
    snapshot_queue_.add(key);
    sandbox_queue_.add({key.ns, std::string(kubernetes::text(snapshot, {"spec", "sandboxName"}))});
  });
  cluster_.cache(Kind::Jobs).on_change([this](const ObjectPtr& before, const ObjectPtr& after) {
    add_owners(snapshot_queue_, after ? *after : *before, kSnapshots.kind);
  });
}

net::awaitable<void> Controller::work() {
  using namespace race;
  if (!co_await cluster_.wait_synced()) co_return;
  log_info("controller has read the cluster",
           {{"sandboxes", cluster_.cache(Kind::Sandboxes).size()}, {"pools", cluster_.cache(Kind::Pools).size()}});
  co_await (sandbox_queue_.run() && pool_queue_.run() && snapshot_queue_.run());
}

net::awaitable<void> Controller::run() {
  using namespace race;
  co_await (cluster_.run() && events_.run() && watches_.run() && work());
}

Figures Controller::figures() {
  Figures out;
  out.writes = cluster_.writes();
  out.grants = pools_.grants();
  out.events_dropped = events_.dropped();
  out.sandboxes = cluster_.cache(Kind::Sandboxes).size();
  out.pools = cluster_.cache(Kind::Pools).size();
  out.snapshots = cluster_.cache(Kind::Snapshots).size();
  out.queues = {{"batchsandbox", sandbox_queue_.done(), sandbox_queue_.failed(), sandbox_queue_.waiting()},
                {"pool", pool_queue_.done(), pool_queue_.failed(), pool_queue_.waiting()},
                {"snapshot", snapshot_queue_.done(), snapshot_queue_.failed(), snapshot_queue_.waiting()}};
  for (const ObjectPtr& each : cluster_.cache(Kind::Pools).list()) {
    const Key key = kubernetes::key_of(*each);
    const auto figure = [&](std::string_view name) {
      return std::max<std::int64_t>(0, kubernetes::number(*each, {"status", name}));
    };
    out.pool_figures.push_back({key.ns, key.name, figure("total"), figure("allocated"), figure("available")});
  }
  return out;
}

}  // namespace osb::controller
