#include "controller/snapshot/snapshot_reconciler.h"

#include <algorithm>
#include <utility>

#include <boost/json/array.hpp>

#include "controller/model/conditions.h"
#include "controller/model/pod_template.h"
#include "controller/names.h"
#include "kubernetes/api_status.h"

namespace osb::controller {
namespace {

using kubernetes::text;

std::string now_text(const Cluster& cluster) {
  return format_timestamp(std::chrono::floor<std::chrono::seconds>(cluster.clock().now()));
}

json::object status_of(const json::object& snapshot) {
  const json::value* status = snapshot.if_contains("status");
  json::object out = status != nullptr && status->is_object() ? status->get_object() : json::object();
  out["observedGeneration"] = kubernetes::number(snapshot, {"metadata", "generation"});
  return out;
}

CommitSource recorded_source(const json::object& snapshot) {
  CommitSource out{std::string(text(snapshot, {"status", "sourcePodName"})),
                   std::string(text(snapshot, {"status", "sourceNodeName"})),
                   {}};
  const json::value* list = kubernetes::find(snapshot, {"status", "containers"});
  if (list == nullptr || !list->is_array()) return out;
  for (const json::value& each : list->get_array()) {
    if (!each.is_object()) continue;
    out.containers.push_back({std::string(text(each.get_object(), {"containerName"})),
                              std::string(text(each.get_object(), {"imageUri"})), ""});
  }
  return out;
}

json::array containers_json(const std::vector<CommittedContainer>& containers) {
  json::array out;
  for (const CommittedContainer& each : containers) {
    json::object one{{"containerName", each.name}, {"imageUri", each.image}};
    if (!each.digest.empty()) one["imageDigest"] = each.digest;
    out.emplace_back(std::move(one));
  }
  return out;
}

}  // namespace

net::awaitable<Result<WorkQueue::Again>> SnapshotReconciler::reconcile(Key key) {
  ObjectPtr snapshot = cluster_.get(Kind::Snapshots, key);
  if (!snapshot) co_return WorkQueue::Again();
  Result<void> done;
  if (kubernetes::is_deleting(*snapshot)) {
    done = co_await clean_up(snapshot);
  } else if (const std::string_view phase = text(*snapshot, {"status", "phase"});
             phase == "Succeed" || phase == "Failed") {
    co_return WorkQueue::Again();
  } else {
    const ObjectPtr job = cluster_.get(Kind::Jobs, {key.ns, commit_job_name(*snapshot)});
    const bool ours = job && kubernetes::controller_uid(*job) == kubernetes::uid_of(*snapshot);
    done = phase == "Committing" && ours ? co_await follow(snapshot, job) : co_await start(snapshot);
  }
  if (!done) co_return Failure(done.error());
  co_return WorkQueue::Again();
}

net::awaitable<Result<void>> SnapshotReconciler::write(ObjectPtr snapshot, json::object status) {
  auto done = co_await cluster_.patch(Kind::Snapshots, kubernetes::key_of(*snapshot), {{"status", std::move(status)}},
                                      "status");
  if (!done && !kubernetes::is_not_found(done.error())) co_return Failure(done.error());
  co_return Result<void>();
}

net::awaitable<Result<void>> SnapshotReconciler::fail_with(ObjectPtr snapshot, std::string reason,
                                                           std::string message) {
  json::object status = status_of(*snapshot);
  Conditions conditions(*snapshot, now_text(cluster_));
  conditions.clear("Ready");
  conditions.set("Failed", reason, message);
  status["phase"] = "Failed";
  status["conditions"] = conditions.list();
  co_return co_await write(std::move(snapshot), std::move(status));
}

// The first running pod of the sandbox, whole: the cache has no containers.
net::awaitable<std::optional<json::object>> SnapshotReconciler::running_pod(const BatchSandbox& sandbox) {
  std::vector<std::pair<Kind, Key>> candidates;
  for (const std::string& name : sandbox.held()) candidates.push_back({Kind::PoolPods, {sandbox.key.ns, name}});
  for (const PodFacts& pod : cluster_.pods_of(Kind::ReplicaPods, sandbox.uid)) {
    candidates.push_back({Kind::ReplicaPods, {sandbox.key.ns, pod.name}});
  }
  for (const auto& [kind, key] : candidates) {
    const ObjectPtr known = cluster_.get(kind, key);
    if (!known) continue;
    const PodFacts pod = cluster_.facts(known);
    const bool taken = !pod.claim.empty() && pod.claim != sandbox.uid;
    if (pod.deleting || pod.phase != "Running" || taken) continue;
    auto whole = co_await cluster_.read(kind, key);
    if (whole && kubernetes::uid_of(*whole) == pod.uid) co_return std::move(*whole);
  }
  co_return std::nullopt;
}

net::awaitable<std::optional<CommitSource>> SnapshotReconciler::source_of(const BatchSandbox& sandbox,
                                                                          const json::object& snapshot) {
  const auto pod = co_await running_pod(sandbox);
  if (!pod) co_return std::nullopt;
  CommitSource out{kubernetes::key_of(*pod).name, std::string(text(*pod, {"spec", "nodeName"})), {}};
  const bool from_template = sandbox.pod_template != nullptr && !sandbox.pooled();
  const json::value* list = kubernetes::find(from_template ? *sandbox.pod_template : *pod, {"spec", "containers"});
  if (list == nullptr || !list->is_array()) co_return out;
  for (const json::value& each : list->get_array()) {
    if (!each.is_object()) continue;
    const std::string name(text(each.get_object(), {"name"}));
    if (!name.empty()) out.containers.push_back({name, snapshot_image(options_.registry, snapshot, sandbox, name), ""});
  }
  co_return out;
}

net::awaitable<Result<void>> SnapshotReconciler::start(ObjectPtr snapshot) {
  const Key key = kubernetes::key_of(*snapshot);
  if (!kubernetes::has_finalizer(*snapshot, finalizers::kSnapshot)) {
    const auto add = [](const json::object& newest) -> std::optional<json::object> {
      if (kubernetes::is_deleting(newest) || kubernetes::has_finalizer(newest, finalizers::kSnapshot))
        return std::nullopt;
      json::object patch;
      set_finalizer(patch, newest, finalizers::kSnapshot, true);
      return patch;
    };
    auto added = co_await cluster_.change(Kind::Snapshots, snapshot, add);
    if (!added) co_return Failure(added.error());
    if (!*added) co_return Result<void>();
  }
  if (options_.registry.empty()) {
    co_return co_await fail_with(snapshot, "RegistryNotConfigured", "the controller has no --snapshot-registry");
  }
  if (options_.committer_image.empty()) {
    co_return co_await fail_with(snapshot, "CommitterNotConfigured",
                                 "the controller has no --image-committer-image, the program that saves containers");
  }
  const std::string name(text(*snapshot, {"spec", "sandboxName"}));
  ObjectPtr object = cluster_.get(Kind::Sandboxes, {key.ns, name});
  if (!object) co_return co_await fail_with(snapshot, "BatchSandboxLookupFailed", "there is no BatchSandbox " + name);
  const BatchSandbox sandbox = BatchSandbox::read(std::move(object));
  CommitSource source = recorded_source(*snapshot);
  if (source.pod.empty()) {
    auto found = co_await source_of(sandbox, *snapshot);
    if (!found) co_return co_await fail_with(snapshot, "SourcePodNotFound", "no pod of BatchSandbox " + name + " runs");
    if (found->containers.empty()) co_return co_await fail_with(snapshot, "NoContainers", "the pod has no containers");
    source = std::move(*found);
    json::object status = status_of(*snapshot);
    status["phase"] = "Pending";
    status["sourcePodName"] = source.pod;
    status["sourceNodeName"] = source.node;
    status["containers"] = containers_json(source.containers);
    if (auto written = co_await write(snapshot, std::move(status)); !written) co_return written;
    if (ObjectPtr now = cluster_.get(Kind::Snapshots, key)) snapshot = std::move(now);
  }
  auto made = co_await cluster_.create(Kind::Jobs, key.ns, commit_job(*snapshot, source, options_));
  if (!made && !kubernetes::already_exists(made.error())) {
    cluster_.event(*snapshot, true, "FailedCreateJob", "Error creating job: " + made.error().message);
    const Code code = made.error().code;
    if (code != Code::Unprocessable && code != Code::InvalidRequest) co_return Failure(made.error());
    co_return co_await fail_with(snapshot, "CommitJobInvalid", made.error().message);
  }
  if (made) cluster_.event(*snapshot, false, "CreatedJob", "Created job " + commit_job_name(*snapshot));
  json::object status = status_of(*snapshot);
  status["phase"] = "Committing";
  co_return co_await write(snapshot, std::move(status));
}

// The last words of the program in all pods of the job, the latest last.
net::awaitable<std::vector<LastWords>> SnapshotReconciler::words_of(json::object job) {
  const Key key = kubernetes::key_of(job);
  std::vector<LastWords> out;
  auto pods = co_await cluster_.client().list(kubernetes::resources::kPods, key.ns, {.labels = "job-name=" + key.name});
  if (!pods) co_return out;
  for (const ObjectPtr& pod : pods->items) {
    if (auto words = last_words(*pod)) out.push_back(std::move(*words));
  }
  std::ranges::sort(out, {}, &LastWords::finished_at);
  co_return out;
}

net::awaitable<Result<void>> SnapshotReconciler::follow(ObjectPtr snapshot, ObjectPtr job) {
  const JobState state = job_state(*job);
  if (state == JobState::Running) co_return Result<void>();
  CommitSource source = recorded_source(*snapshot);
  const std::vector<LastWords> words = co_await words_of(*job);
  if (state == JobState::Failed) {
    const std::string failure = job_failure(*job, words.empty() ? "" : words.back().message);
    cluster_.event(*snapshot, true, "JobFailed", "Job " + commit_job_name(*snapshot) + ": " + failure);
    auto freed = co_await cluster_.create(Kind::Jobs, kubernetes::key_of(*snapshot).ns,
                                          unpause_job(*snapshot, source, options_));
    if (!freed && !kubernetes::already_exists(freed.error())) {
      cluster_.event(*snapshot, true, "FailedCreateJob", "Error creating job: " + freed.error().message);
    }
    co_return co_await fail_with(snapshot, "CommitJobFailed", failure);
  }
  for (const LastWords& said : words) {
    for (const CommittedContainer& each : parse_committed(said.message)) {
      const auto found = std::ranges::find(source.containers, each.name, &CommittedContainer::name);
      if (found != source.containers.end()) found->digest = each.digest;
    }
  }
  json::object status = status_of(*snapshot);
  Conditions conditions(*snapshot, now_text(cluster_));
  conditions.set("Ready", "Committed", "all containers are saved");
  status["phase"] = "Succeed";
  status["containers"] = containers_json(source.containers);
  status["conditions"] = conditions.list();
  cluster_.event(*snapshot, false, "JobSucceeded", "Job " + commit_job_name(*snapshot) + " has saved all containers");
  co_return co_await write(snapshot, std::move(status));
}

net::awaitable<Result<void>> SnapshotReconciler::clean_up(ObjectPtr snapshot) {
  if (!kubernetes::has_finalizer(*snapshot, finalizers::kSnapshot)) co_return Result<void>();
  const std::string ns = kubernetes::key_of(*snapshot).ns;
  for (const std::string& name : {commit_job_name(*snapshot), unpause_job_name(*snapshot)}) {
    const ObjectPtr job = cluster_.get(Kind::Jobs, {ns, name});
    if (!job || kubernetes::controller_uid(*job) != kubernetes::uid_of(*snapshot)) continue;
    auto removed = co_await cluster_.remove(Kind::Jobs, job);
    if (!removed) co_return removed;
  }
  const auto release = [](const json::object& newest) -> std::optional<json::object> {
    if (!kubernetes::has_finalizer(newest, finalizers::kSnapshot)) return std::nullopt;
    json::object patch;
    set_finalizer(patch, newest, finalizers::kSnapshot, false);
    return patch;
  };
  auto done = co_await cluster_.change(Kind::Snapshots, snapshot, release);
  if (!done) co_return Failure(done.error());
  co_return Result<void>();
}

}  // namespace osb::controller
