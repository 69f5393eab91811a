#pragma once

#include <optional>
#include <string>

#include "async/net.h"
#include "controller/cluster.h"
#include "controller/queue/work_queue.h"
#include "controller/snapshot/commit_job.h"

namespace osb::controller {

// Carries a SandboxSnapshot from Pending over Committing to Succeed or Failed: a job on the node of the sandbox's pod
// saves its containers as images.
class SnapshotReconciler {
 public:
  // `cluster` outlives it.
  SnapshotReconciler(Cluster& cluster, SnapshotOptions options) : cluster_(cluster), options_(std::move(options)) {}

  net::awaitable<Result<WorkQueue::Again>> reconcile(Key key);

 private:
  net::awaitable<Result<void>> start(ObjectPtr snapshot);
  net::awaitable<Result<void>> follow(ObjectPtr snapshot, ObjectPtr job);
  net::awaitable<Result<void>> clean_up(ObjectPtr snapshot);
  net::awaitable<Result<void>> fail_with(ObjectPtr snapshot, std::string reason, std::string message);
  net::awaitable<Result<void>> write(ObjectPtr snapshot, json::object status);
  net::awaitable<std::vector<LastWords>> words_of(json::object job);
  net::awaitable<std::optional<CommitSource>> source_of(const BatchSandbox& sandbox, const json::object& snapshot);
  net::awaitable<std::optional<json::object>> running_pod(const BatchSandbox& sandbox);

  Cluster& cluster_;
  SnapshotOptions options_;
};

}  // namespace osb::controller
