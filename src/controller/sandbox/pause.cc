#include "controller/sandbox/pause.h"

#include <algorithm>
#include <utility>

#include <boost/json/array.hpp>

#include "controller/model/conditions.h"
#include "controller/model/pod_template.h"
#include "controller/names.h"
#include "controller/sandbox/sandbox_status.h"
#include "kubernetes/api_status.h"

namespace osb::controller {
namespace {

using kubernetes::text;

std::string snapshot_name(const BatchSandbox& sandbox) { return sandbox.key.name + "-pause"; }

void erase_keys(json::object& object, std::string_view map, std::initializer_list<std::string_view> names) {
  json::value* found = object.if_contains(map);
  if (found == nullptr || !found->is_object()) return;
  for (const std::string_view name : names) found->get_object().erase(name);
}

std::string failure_message(const json::object& snapshot) {
  const json::value* list = kubernetes::find(snapshot, {"status", "conditions"});
  if (list != nullptr && list->is_array()) {
    for (const json::value& each : list->get_array()) {
      if (!each.is_object() || text(each.get_object(), {"type"}) != "Failed") continue;
      return std::string(text(each.get_object(), {"reason"})) + ": " +
             std::string(text(each.get_object(), {"message"}));
    }
  }
  return "the snapshot failed";
}

bool any_alive(const std::vector<PodFacts>& pods) {
  return std::ranges::any_of(pods, [](const PodFacts& pod) { return !pod.deleting && !pod.finished(); });
}

}  // namespace

PauseStep plan_pause(const BatchSandbox& sandbox) {
  if (sandbox.deleting) return PauseStep::None;
  const std::string_view phase = sandbox.phase();
  if (phase == "Resuming") return PauseStep::ContinueResume;
  if (phase == "Pausing") return PauseStep::ContinuePause;
  if (!sandbox.pause) return PauseStep::None;
  const Conditions conditions(*sandbox.object, "");
  const bool newer = sandbox.generation > kubernetes::number(*sandbox.object, {"status", "pauseObservedGeneration"});
  if (*sandbox.pause && phase == "Succeed" && (newer || !conditions.has("PauseFailed"))) return PauseStep::StartPause;
  if (!*sandbox.pause && phase == "Paused" && (newer || !conditions.has("ResumeFailed"))) return PauseStep::StartResume;
  return PauseStep::None;
}

json::object template_from_pod(const json::object& pod) {
  json::object metadata;
  for (const std::string_view name : {"labels", "annotations"}) {
    const json::value* value = kubernetes::find(pod, {"metadata", name});
    if (value != nullptr) metadata[name] = *value;
  }
  erase_keys(metadata, "labels",
             {keys::kReplicaIndex, keys::kReplicaOf, keys::kPoolName, keys::kPoolRevision, keys::kEvict});
  erase_keys(metadata, "annotations", {keys::kClaim, keys::kRestartRecord});
  json::object spec;
  if (const json::value* value = pod.if_contains("spec"); value != nullptr && value->is_object()) {
    spec = value->get_object();
  }
  spec.erase("nodeName");
  return {{"metadata", std::move(metadata)}, {"spec", std::move(spec)}};
}

json::object template_from_snapshot(const json::object& pod_template, const json::object& snapshot,
                                    const std::string& pull_secret) {
  json::object out = pod_template;
  json::object& spec = kubernetes::make_object(out, {"spec"});
  const json::value* images = kubernetes::find(snapshot, {"status", "containers"});
  json::value* containers = spec.if_contains("containers");
  if (images != nullptr && images->is_array() && containers != nullptr && containers->is_array()) {
    for (json::value& container : containers->get_array()) {
      if (!container.is_object()) continue;
      for (const json::value& image : images->get_array()) {
        if (!image.is_object()) continue;
        const std::string_view uri = text(image.get_object(), {"imageUri"});
        if (uri.empty() || text(image.get_object(), {"containerName"}) != text(container.get_object(), {"name"}))
          continue;
        container.get_object()["image"] = uri;
      }
    }
  }
  if (pull_secret.empty()) return out;
  json::value& secrets = spec["imagePullSecrets"];
  if (!secrets.is_array()) secrets.emplace_array();
  const json::object wanted{{"name", pull_secret}};
  if (std::ranges::find(secrets.get_array(), json::value(wanted)) == secrets.get_array().end()) {
    secrets.get_array().emplace_back(wanted);
  }
  return out;
}

ObjectPtr Pauser::snapshot_of(const BatchSandbox& sandbox) {
  return cluster_.get(Kind::Snapshots, {sandbox.key.ns, snapshot_name(sandbox)});
}

net::awaitable<Result<void>> Pauser::enter(BatchSandbox& sandbox, std::string phase, Failed failed) {
  BatchSandbox as_if = sandbox;
  json::object object = *sandbox.object;
  kubernetes::make_object(object, {"status"})["phase"] = phase;
  as_if.object = std::make_shared<const json::object>(std::move(object));
  const std::string now = format_timestamp(std::chrono::floor<std::chrono::seconds>(cluster_.clock().now()));
  json::object status = next_status(as_if, {.pods = {}, .now = now});
  // Counters are those of the next pass; here only phase and conditions move.
  if (const json::value* before = sandbox.object->if_contains("status"); before != nullptr && before->is_object()) {
    for (const std::string_view name :
         {"replicas", "allocated", "ready", "taskRunning", "taskSucceed", "taskFailed", "taskPending", "taskUnknown"}) {
      if (const json::value* value = before->get_object().if_contains(name)) status[name] = *value;
    }
  }
  status["phase"] = phase;
  status["pauseObservedGeneration"] = sandbox.generation;
  json::object with_status{{"status", status}};
  Conditions conditions(with_status, now);
  if (!failed.cleared.empty()) conditions.clear(failed.cleared);
  if (!failed.type.empty()) conditions.set(failed.type, failed.reason, failed.message);
  if (phase == "Succeed" || phase == "Failed") conditions.clear("Progressing");
  status["conditions"] = conditions.list();
  auto written = co_await cluster_.patch(Kind::Sandboxes, sandbox.key, {{"status", std::move(status)}}, "status");
  if (!written) co_return Failure(written.error());
  sandbox = BatchSandbox::read(std::make_shared<const json::object>(std::move(*written)));
  co_return Result<void>();
}

net::awaitable<Result<bool>> Pauser::start_pause(BatchSandbox& sandbox) {
  if (sandbox.replicas != 1) {
    auto done =
        co_await enter(sandbox, "Succeed",
                       {"PauseFailed", "UnsupportedReplicas", "only a sandbox with one replica can be paused", ""});
    if (!done) co_return Failure(done.error());
    co_return true;
  }
  if (const ObjectPtr old = snapshot_of(sandbox)) {
    if (kubernetes::is_deleting(*old)) co_return false;
    auto removed = co_await cluster_.remove(Kind::Snapshots, old);
    if (!removed) co_return Failure(removed.error());
    co_return false;
  }
  auto done = co_await enter(sandbox, "Pausing", {"", "", "", "PauseFailed"});
  if (!done) co_return Failure(done.error());
  co_return false;
}

net::awaitable<Result<bool>> Pauser::continue_pause(BatchSandbox& sandbox, const std::vector<PodFacts>& pods) {
  const ObjectPtr snapshot = snapshot_of(sandbox);
  if (!snapshot) {
    json::object wanted{{"metadata",
                         {{"name", snapshot_name(sandbox)},
                          {"ownerReferences", json::array{kubernetes::owner_reference(*sandbox.object, true)}}}},
                        {"spec", {{"sandboxName", sandbox.key.name}}}};
    auto made = co_await cluster_.create(Kind::Snapshots, sandbox.key.ns, std::move(wanted));
    if (!made && !kubernetes::already_exists(made.error())) co_return Failure(made.error());
    co_return false;
  }
  const std::string_view phase = text(*snapshot, {"status", "phase"});
  if (phase == "Succeed") {
    auto done = co_await finish_pause(sandbox, pods);
    if (!done) co_return Failure(done.error());
  } else if (phase == "Failed") {
    const bool alive = any_alive(pods);
    auto done =
        co_await enter(sandbox, alive ? "Succeed" : "Failed",
                       {"PauseFailed", alive ? "SnapshotFailed" : "PodNotFound", failure_message(*snapshot), ""});
    if (!done) co_return Failure(done.error());
  }
  co_return false;
}

net::awaitable<Result<void>> Pauser::finish_pause(BatchSandbox& sandbox, const std::vector<PodFacts>& pods) {
  if (sandbox.pooled() && !pods.empty()) {
    auto pod = co_await cluster_.read(Kind::PoolPods, kubernetes::key_of(*pods.front().object));
    if (!pod) co_return Failure(pod.error());
    const auto detach = [&](const json::object& newest) -> std::optional<json::object> {
      json::object patch{
          {"metadata",
           {{"annotations", {{keys::kAllocated, nullptr}, {keys::kRelease, nullptr}, {keys::kReleased, nullptr}}}}},
          {"spec", {{"template", template_from_pod(*pod)}, {"poolRef", nullptr}}}};
      set_finalizer(patch, newest, finalizers::kAllocation, false);
      return patch;
    };
    auto detached = co_await cluster_.change(Kind::Sandboxes, sandbox.object, detach);
    if (!detached) co_return Failure(detached.error());
    if (ObjectPtr now = cluster_.get(Kind::Sandboxes, sandbox.key)) sandbox = BatchSandbox::read(std::move(now));
  } else {
    for (const PodFacts& pod : pods) {
      if (pod.deleting) continue;
      auto removed = co_await cluster_.remove(Kind::ReplicaPods, pod.object);
      if (!removed) co_return removed;
    }
  }
  co_return co_await enter(sandbox, "Paused", {"", "", "", "PauseFailed"});
}

net::awaitable<Result<bool>> Pauser::continue_resume(BatchSandbox& sandbox, const std::vector<PodFacts>& pods) {
  const ObjectPtr snapshot = snapshot_of(sandbox);
  const bool ready = std::ranges::any_of(pods, &PodFacts::ready);
  if (!snapshot && ready) co_return true;
  const bool good = snapshot && text(*snapshot, {"status", "phase"}) == "Succeed";
  if (!good) {
    auto done =
        co_await enter(sandbox, "Paused",
                       {"ResumeFailed", snapshot ? "SnapshotNotReady" : "SnapshotNotFound",
                        "snapshot " + snapshot_name(sandbox) + (snapshot ? " is not complete" : " is not there"), ""});
    if (!done) co_return Failure(done.error());
    co_return false;
  }
  if (sandbox.pod_template == nullptr) co_return true;  // the status says so
  json::object wanted = template_from_snapshot(*sandbox.pod_template, *snapshot, options_.pull_secret);
  if (wanted == *sandbox.pod_template && !sandbox.pooled()) co_return true;
  auto patched = co_await cluster_.patch(Kind::Sandboxes, sandbox.key,
                                         {{"spec", {{"template", std::move(wanted)}, {"poolRef", nullptr}}}});
  if (!patched) co_return Failure(patched.error());
  sandbox = BatchSandbox::read(std::make_shared<const json::object>(std::move(*patched)));
  co_return true;
}

net::awaitable<Result<bool>> Pauser::step(BatchSandbox& sandbox, const std::vector<PodFacts>& pods,
                                          bool tasks_stopped) {
  switch (plan_pause(sandbox)) {
    case PauseStep::None:
      co_return true;
    case PauseStep::StartPause:
      co_return co_await start_pause(sandbox);
    case PauseStep::ContinuePause:
      if (!tasks_stopped && !snapshot_of(sandbox)) co_return false;
      co_return co_await continue_pause(sandbox, pods);
    case PauseStep::StartResume: {
      auto done = co_await enter(sandbox, "Resuming", {"", "", "", "ResumeFailed"});
      if (!done) co_return Failure(done.error());
      co_return co_await continue_resume(sandbox, pods);
    }
    case PauseStep::ContinueResume:
      co_return co_await continue_resume(sandbox, pods);
  }
  co_return true;
}

net::awaitable<Result<void>> Pauser::drop_snapshot(const BatchSandbox& sandbox) {
  const ObjectPtr snapshot = snapshot_of(sandbox);
  const bool over =
      snapshot && text(*snapshot, {"status", "phase"}) == "Succeed" && !kubernetes::is_deleting(*snapshot);
  if (!over || kubernetes::controller_uid(*snapshot) != sandbox.uid) co_return Result<void>();
  co_return co_await cluster_.remove(Kind::Snapshots, snapshot);
}

}  // namespace osb::controller
