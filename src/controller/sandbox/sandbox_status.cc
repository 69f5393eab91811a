#include "controller/sandbox/sandbox_status.h"

#include <algorithm>
#include <map>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "base/concat.h"
#include "controller/names.h"
#include "kubernetes/api_status.h"

namespace osb::controller {
namespace {

constexpr std::string_view kNothingToTell = "pods are being created";

// The most common reason of pods that cannot run.
struct Failing {
  int count = 0;
  std::string reason, sample;
};
Failing failing(const std::vector<PodFacts>& pods) {
  std::map<std::string, int> reasons;
  Failing out;
  for (const PodFacts& pod : pods) {
    if (pod.failure.empty() || pod.deleting) continue;
    ++out.count;
    const int times = ++reasons[pod.failure];
    if (out.reason.empty() || times > reasons[out.reason]) out.reason = pod.failure;
  }
  for (const PodFacts& pod : pods) {
    if (pod.failure == out.reason && !pod.deleting && out.sample.empty()) out.sample = pod.name;
  }
  return out;
}

std::string waiting_message(const SandboxView& view) {
  if (view.create_failed) return view.create_failed->message;
  for (const PodFacts& pod : view.pods) {
    if (!pod.unschedulable.empty() && !pod.ready) return "pod " + pod.name + ": " + pod.unschedulable;
  }
  return std::string(kNothingToTell);
}

// A refusal of the pod itself. Quotas and servers that are away heal by themselves.
bool is_final(const Error& error) { return error.code == Code::Unprocessable || error.code == Code::InvalidRequest; }

void set_phase_conditions(Conditions& conditions, std::string_view phase, const SandboxView& view) {
  for (const std::string_view type : {"Ready", "Progressing", "Paused"}) {
    const bool holds = (type == "Ready" && phase == "Succeed") || (type == "Paused" && phase == "Paused") ||
                       (type == "Progressing" && (phase == "Pending" || phase == "Pausing" || phase == "Resuming"));
    if (!holds) conditions.clear(type);
  }
  if (phase == "Pending") conditions.set("Progressing", "Creating", waiting_message(view));
  if (phase == "Succeed") conditions.set("Ready", "PodsReady", "at least one pod is ready");
  if (phase == "Pausing") conditions.set("Progressing", "PauseInProgress", "the root file system is being saved");
  if (phase == "Paused") conditions.set("Paused", "Paused", "the sandbox is paused");
  if (phase == "Resuming") conditions.set("Progressing", "ResumeInProgress", "pods are being created again");
}

struct Decision {
  std::string phase;
  std::string reason, message;  // of PodFailed; empty: it does not hold
};
Decision decide(const BatchSandbox& sandbox, const SandboxView& view, int ready) {
  const std::string_view phase = sandbox.phase();
  if (phase == "Pausing" || phase == "Paused") return {std::string(phase), "", ""};
  if (!sandbox.problems.empty()) return {"Failed", "InvalidSpec", sandbox.problems.front()};
  const Failing bad = failing(view.pods);
  if (bad.count > 0) {
    return {
        "Failed", bad.reason,
        concat(bad.count, " of ", view.pods.size(), " pods cannot run: ", bad.reason, ", for example ", bad.sample)};
  }
  if (view.lost > 0 && !sandbox.deleting) {
    return {"Failed", "PodLost", concat(view.lost, " of the pods that the pool gave are gone")};
  }
  if (view.create_failed && is_final(*view.create_failed)) {
    return {"Failed", "InvalidTemplate", view.create_failed->message};
  }
  if (ready > 0) return {"Succeed", "", ""};
  return {phase == "Resuming" ? "Resuming" : "Pending", "", ""};
}

}  // namespace

json::object next_status(const BatchSandbox& sandbox, const SandboxView& view) {
  int allocated = 0, ready = 0;
  for (const PodFacts& pod : view.pods) {
    if (!pod.node.empty() || !pod.ip.empty()) ++allocated;
    if (pod.ready) ++ready;
  }
  const Decision decision = decide(sandbox, view, ready);
  Conditions conditions(*sandbox.object, view.now);
  set_phase_conditions(conditions, decision.phase, view);
  if (decision.reason.empty()) {
    conditions.clear("PodFailed");
  } else {
    conditions.set("PodFailed", decision.reason, decision.message);
    if (sandbox.phase() == "Resuming") conditions.set("ResumeFailed", decision.reason, decision.message);
  }
  if (view.wait != nullptr && decision.phase != "Paused") {
    conditions.set("PoolAllocationPending", view.wait->reason, view.wait->message);
  } else {
    conditions.clear("PoolAllocationPending");
  }
  // While a pause or a resume goes on, and while it rests, the generation that was acted on stays.
  const bool in_between = decision.phase == "Pausing" || decision.phase == "Paused" || decision.phase == "Resuming";
  const std::int64_t observed =
      in_between ? kubernetes::number(*sandbox.object, {"status", "pauseObservedGeneration"}) : sandbox.generation;
  json::object out{{"observedGeneration", sandbox.generation},
                   {"replicas", static_cast<int>(view.pods.size())},
                   {"allocated", allocated},
                   {"ready", ready},
                   {"taskRunning", view.tasks.running},
                   {"taskSucceed", view.tasks.succeeded},
                   {"taskFailed", view.tasks.failed},
                   {"taskPending", view.tasks.pending},
                   {"taskUnknown", view.tasks.unknown},
                   {"phase", decision.phase},
                   {"pauseObservedGeneration", observed},
                   {"conditions", conditions.list()}};
  return out;
}

bool worth_writing(const BatchSandbox& sandbox, const json::object& status) {
  const json::value* before = sandbox.object->if_contains("status");
  if (before != nullptr && *before == json::value(status)) return false;
  const bool is_new = before == nullptr || !before->is_object() || before->get_object().empty();
  if (!is_new) return true;
  const json::array& conditions = kubernetes::find(status, {"conditions"})->as_array();
  const bool plain = kubernetes::text(status, {"phase"}) == "Pending" &&
                     kubernetes::number(status, {"replicas"}) == 0 &&
                     kubernetes::number(status, {"taskPending"}) == 0 && conditions.size() == 1 &&
                     kubernetes::text(conditions[0].as_object(), {"message"}) == kNothingToTell;
  return !plain;
}

std::string endpoints_of(const std::vector<PodFacts>& pods) {
  json::array out;
  for (const PodFacts& pod : pods) out.emplace_back(pod.ip);
  return json::serialize(out);
}

}  // namespace osb::controller
