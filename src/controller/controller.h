#pragma once

#include <memory>
#include <string>

#include "async/net.h"
#include "controller/cluster.h"
#include "controller/metrics.h"
#include "controller/pool/pool_reconciler.h"
#include "controller/queue/work_queue.h"
#include "controller/sandbox/sandbox_reconciler.h"
#include "controller/snapshot/snapshot_reconciler.h"
#include "kubernetes/client.h"
#include "kubernetes/event_recorder.h"

namespace osb::controller {

struct ControllerOptions {
  std::string ns;  // empty: all namespaces
  std::string host;
  std::size_t sandbox_workers = 32, pool_workers = 16, snapshot_workers = 4;
  SnapshotOptions snapshots;
  Pauser::Options pause;
};

// The reconcilers of the three kinds and the events that wake them. One exists for each time of leading: it begins with
// a list of everything, so that it knows every write of the leader before it.
class Controller {
 public:
  // All outlive it.
  Controller(net::any_io_executor executor, kubernetes::Client& client, TaskExecutors& executors,
             ControllerOptions options);

  // Until it is cancelled. Once.
  net::awaitable<void> run();

  Cluster& cluster() { return cluster_; }
  bool synced() const { return cluster_.synced(); }
  // Nothing is being done, and nothing waits but for time and events.
  bool idle() const { return sandbox_queue_.idle() && pool_queue_.idle() && snapshot_queue_.idle(); }
  Figures figures();

 private:
  WorkQueue::Options queue_options(std::string name, std::size_t workers) const;
  void follow_sandboxes();
  void follow_pools();
  void follow_pods();
  void follow_snapshots();
  net::awaitable<void> work();

  kubernetes::Client& client_;
  kubernetes::EventRecorder events_;
  Cluster cluster_;
  Arrivals arrivals_;
  PoolWaits waits_;
  TaskWatches watches_;
  SandboxReconciler sandboxes_;
  PoolReconciler pools_;
  SnapshotReconciler snapshots_;
  WorkQueue sandbox_queue_, pool_queue_, snapshot_queue_;
};

}  // namespace osb::controller
