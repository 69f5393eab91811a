#pragma once

#include <map>
#include <string>
#include <vector>

#include "async/net.h"
#include "controller/cluster.h"
#include "controller/pool/pool_reconciler.h"
#include "controller/queue/work_queue.h"
#include "controller/sandbox/pause.h"
#include "controller/sandbox/task_watches.h"
#include "controller/sandbox/tasks.h"

namespace osb::controller {

// Keeps one BatchSandbox as its object wants it: expiry, pods from its template, tasks, pause and resume, endpoints and
// status. Pods of a pool come and go by PoolReconciler.
class SandboxReconciler {
 public:
  // All outlive it.
  SandboxReconciler(Cluster& cluster, PoolWaits& waits, TaskExecutors& executors, TaskWatches& watches,
                    Pauser::Options pause)
      : cluster_(cluster),
        waits_(waits),
        executors_(executors),
        watches_(watches),
        pauser_(cluster, std::move(pause)) {}

  net::awaitable<Result<WorkQueue::Again>> reconcile(Key key);

 private:
  struct Pass;
  std::vector<PodFacts> pods_of(const BatchSandbox& sandbox, int& lost);
  net::awaitable<Result<bool>> assign_pool(const BatchSandbox& sandbox);
  FollowTasks follow(const BatchSandbox& sandbox);
  net::awaitable<Result<void>> end_tasks(Pass& pass);
  net::awaitable<Result<void>> edit_finalizer(const BatchSandbox& sandbox, std::string_view name, bool present);
  net::awaitable<void> scale(Pass& pass);
  net::awaitable<void> create_replica(Pass& pass, int index);
  net::awaitable<Result<void>> write(Pass& pass);
  net::awaitable<Result<void>> advance_tasks(Pass& pass);
  net::awaitable<Result<void>> release_finished(Pass& pass, const std::vector<std::string>& finished);

  Cluster& cluster_;
  PoolWaits& waits_;
  TaskExecutors& executors_;
  TaskWatches& watches_;
  Pauser pauser_;
  std::map<std::string, TaskCounts, std::less<>> tasks_;  // by UID, as they were last seen
};

}  // namespace osb::controller
