#include "runtime/kubernetes/workload.h"

#include <algorithm>

#include <boost/json/array.hpp>

#include "api/json.h"
#include "base/out_of_memory.h"
#include "base/ports.h"
#include "kubernetes/object.h"
#include "runtime/kubernetes/manifest.h"
#include "runtime/kubernetes/pod_spec.h"
#include "runtime/labels.h"

namespace osb::runtime {

namespace json = boost::json;
using kubernetes::find;
using kubernetes::number;
using kubernetes::text;

namespace {

constexpr std::string_view kEndpoints = "sandbox.opensandbox.io/endpoints";
constexpr std::string_view kAllocated = "sandbox.opensandbox.io/alloc-status";

// Reasons for which a container waits and that the same pod does not get over.
constexpr std::string_view kFinalReasons[] = {
    "ImagePullBackOff",     "InvalidImageName",  "ErrImageNeverPull", "CreateContainerConfigError",
    "CreateContainerError", "RunContainerError", "CrashLoopBackOff"};

const json::array* array_at(const json::object& object, std::initializer_list<std::string_view> path) {
  const json::value* value = find(object, path);
  return value == nullptr ? nullptr : value->if_array();
}

const json::object* named(const json::array* list, std::string_view key, std::string_view name) {
  if (list == nullptr) return nullptr;
  for (const json::value& each : *list) {
    if (each.is_object() && text(each.get_object(), {key}) == name) return &each.get_object();
  }
  return nullptr;
}

const json::object* container_status(const json::object& pod) {
  return named(array_at(pod, {"status", "containerStatuses"}), "name", kSandboxContainer);
}

bool is_agent_sandbox(const json::object& workload) { return text(workload, {"kind"}) == kAgentSandboxes.kind; }

const json::object* main_container(const json::object& workload) {
  const std::string_view field = is_agent_sandbox(workload) ? "podTemplate" : "template";
  const json::array* containers = array_at(workload, {"spec", field, "spec", "containers"});
  if (const json::object* found = named(containers, "name", kSandboxContainer)) return found;
  return containers == nullptr || containers->empty() ? nullptr : containers->front().if_object();
}

std::optional<Timestamp> time_at(const json::object& object, std::initializer_list<std::string_view> path) {
  const auto time = parse_timestamp(text(object, path));
  return time ? std::optional(*time) : std::nullopt;
}

std::string joined(std::string_view reason, std::string_view message) {
  return std::string(reason) + (message.empty() ? "" : ": " + std::string(message));
}

std::optional<PodTrouble> waiting_trouble(const json::array* statuses) {
  if (statuses == nullptr) return std::nullopt;
  for (const json::value& each : *statuses) {
    if (!each.is_object()) continue;
    const json::object& status = each.get_object();
    const std::string_view reason = text(status, {"state", "waiting", "reason"});
    if (reason.empty() || reason == "PodInitializing" || reason == "ContainerCreating") continue;
    const std::string what = "container " + std::string(text(status, {"name"})) + ": ";
    return PodTrouble{std::string(reason), what + joined(reason, text(status, {"state", "waiting", "message"})),
                      std::ranges::find(kFinalReasons, reason) != std::end(kFinalReasons)};
  }
  return std::nullopt;
}

// The end of a pod whose containers are not started again.
void apply_end(Instance& out, const json::object& pod) {
  out.state = InstanceState::Ended;
  const json::object* status = container_status(pod);
  const json::value* end = status == nullptr ? nullptr : find(*status, {"state", "terminated"});
  if (end == nullptr || !end->is_object()) {
    // The pod itself was ended, by an eviction or with its node.
    out.reason = "POD_FAILED";
    out.message = "The pod ended: " + joined(text(pod, {"status", "reason"}), text(pod, {"status", "message"}));
    return;
  }
  const json::object& how = end->get_object();
  const int code = static_cast<int>(number(how, {"exitCode"}));
  out.exit_code = code;
  out.ended_at = time_at(how, {"finishedAt"});
  if (text(how, {"reason"}) == "OOMKilled") {
    out.reason = kReasonOutOfMemory;
    out.message = out_of_memory_message(std::nullopt);
  } else if (code == 0) {
    out.reason = "CONTAINER_EXITED";
    out.message = "The sandbox container exited successfully.";
  } else {
    out.reason = "CONTAINER_EXITED_ERROR";
    out.message = "The sandbox container exited with code " + std::to_string(code) + ".";
  }
}

// Null unless it holds.
const json::object* condition(const json::object& workload, std::string_view type) {
  const json::object* found = named(array_at(workload, {"status", "conditions"}), "type", type);
  return found != nullptr && text(*found, {"status"}) == "True" ? found : nullptr;
}

std::string told_by(const json::object& condition) {
  return joined(text(condition, {"reason"}), text(condition, {"message"}));
}

// The first of the controller's conditions that tells a failure.
std::string failure_of(const json::object& workload) {
  for (const std::string_view type : {"PodFailed", "ResumeFailed", "PauseFailed"}) {
    if (const json::object* found = condition(workload, type)) return told_by(*found);
  }
  return "the controller reports a failure";
}

// Whether the pod's sandbox has ended for good. Other containers of the pod may still run.
bool has_ended(const json::object& pod) {
  const std::string_view phase = text(pod, {"status", "phase"});
  if (phase == "Failed" || phase == "Succeeded") return true;
  const json::object* status = container_status(pod);
  const json::value* end = status == nullptr ? nullptr : find(*status, {"state", "terminated"});
  if (end == nullptr || !end->is_object()) return false;
  const std::string_view restarts = text(pod, {"spec", "restartPolicy"});
  return restarts == "Never" || (restarts == "OnFailure" && number(end->get_object(), {"exitCode"}) == 0);
}

std::string stage_of(const json::object& workload, const json::object* pod) {
  if (const auto trouble = pod == nullptr ? std::nullopt : trouble_of(*pod)) return trouble->message;
  if (const json::object* waits = condition(workload, "PoolAllocationPending")) return told_by(*waits);
  return pod == nullptr                             ? "waiting for the pod"
         : text(*pod, {"spec", "nodeName"}).empty() ? "waiting for a node"
         : container_runs(*pod)                     ? "waiting for execd"
                                                    : "starting the containers";
}

// The end of a task is the end of the sandbox's entrypoint. False: there is no task, or it has not ended.
bool apply_task(Instance& out, const json::object& workload) {
  if (find(workload, {"spec", "taskTemplate"}) == nullptr) return false;
  const bool failed = number(workload, {"status", "taskFailed"}) > 0;
  if (!failed && number(workload, {"status", "taskSucceed"}) == 0) return false;
  out.state = InstanceState::Ended;
  out.reason = failed ? "TASK_FAILED" : "CONTAINER_EXITED";
  out.message = failed ? "The sandbox's entrypoint failed." : "The sandbox's entrypoint exited successfully.";
  return true;
}

// A pause or resume that was asked for and that the controller has not begun; its own rule decides.
bool is_asked_for(const json::object& workload, bool pause) {
  const json::value* wanted = find(workload, {"spec", "pause"});
  if (wanted == nullptr || *wanted != pause) return false;
  const bool newer =
      number(workload, {"metadata", "generation"}) > number(workload, {"status", "pauseObservedGeneration"});
  return newer || condition(workload, pause ? "PauseFailed" : "ResumeFailed") == nullptr;
}

void apply_phase(Instance& out, const json::object& workload, const json::object* pod) {
  const std::string_view phase = text(workload, {"status", "phase"});
  if (phase == "Pausing") {
    out.state = InstanceState::Pausing;
  } else if (phase == "Paused") {
    out.state = is_asked_for(workload, false) ? InstanceState::Resuming : InstanceState::Paused;
    if (const json::object* failed = condition(workload, "ResumeFailed"))
      out.message = "resume failed: " + told_by(*failed);
  } else if (phase == "Resuming") {
    out.state = InstanceState::Resuming;
  } else if (pod != nullptr && has_ended(*pod)) {
    apply_end(out, *pod);
  } else if (apply_task(out, workload)) {
  } else if (phase == "Failed") {
    out.state = InstanceState::Ended;
    out.reason = "POD_FAILED";
    out.message = failure_of(workload);
  } else if (phase == "Succeed" || phase == "Running") {
    out.state = is_asked_for(workload, true) ? InstanceState::Pausing : InstanceState::Running;
    if (const json::object* failed = condition(workload, "PauseFailed"))
      out.message = "pause failed: " + told_by(*failed);
  } else {
    out.message = stage_of(workload, pod);
  }
}

void apply_agent_conditions(Instance& out, const json::object& workload, const json::object* pod) {
  const bool suspended = condition(workload, "Suspended") != nullptr;
  const json::object* ready = named(array_at(workload, {"status", "conditions"}), "type", "Ready");
  if (ready != nullptr && text(*ready, {"reason"}) == "SandboxExpired") {
    out.state = InstanceState::Ended;
    out.reason = "SANDBOX_EXPIRED";
    out.message = "The sandbox is past its deadline.";
  } else if (text(workload, {"spec", "operatingMode"}) == "Suspended") {
    out.state = suspended ? InstanceState::Paused : InstanceState::Pausing;
  } else if (suspended) {
    out.state = InstanceState::Resuming;
  } else if (pod != nullptr && has_ended(*pod)) {
    apply_end(out, *pod);
  } else if (const json::object* finished = condition(workload, "Finished")) {
    const bool failed = text(*finished, {"reason"}) == "PodFailed";
    out.state = InstanceState::Ended;
    out.reason = failed ? "POD_FAILED" : "CONTAINER_EXITED";
    out.message = told_by(*finished);
  } else if (condition(workload, "Ready") != nullptr) {
    out.state = InstanceState::Running;
  } else {
    out.message = stage_of(workload, pod);
  }
}

void apply_state(Instance& out, const json::object& workload, const json::object* pod) {
  if (kubernetes::is_deleting(workload)) {
    out.state = InstanceState::Removing;
  } else if (is_agent_sandbox(workload)) {
    apply_agent_conditions(out, workload, pod);
  } else {
    apply_phase(out, workload, pod);
  }
}

std::string_view deadline_of(const json::object& workload) {
  return text(workload, {"spec", is_agent_sandbox(workload) ? "shutdownTime" : "expireTime"});
}

api::StringMap labels_of(const json::object& workload) {
  api::StringMap out;
  const auto take = [&](std::initializer_list<std::string_view> path, bool ours_only) {
    const json::value* map = find(workload, path);
    if (map == nullptr || !map->is_object()) return;
    for (const auto& [name, value] : map->get_object()) {
      if (value.is_string() && (!ours_only || std::string_view(name).starts_with(label::kPrefix))) {
        out.emplace(name, value.get_string());
      }
    }
  };
  take({"metadata", "labels"}, false);
  take({"metadata", "annotations"}, true);
  // Secrets are no labels.
  std::erase_if(out, [](const auto& item) { return item.first.ends_with("-token"); });
  // The object's deadline is the one that counts: renewals change it.
  if (const std::string_view deadline = deadline_of(workload); !deadline.empty()) {
    out[std::string(label::kExpiresAt)] = deadline;
  } else {
    out[std::string(label::kManualCleanup)] = "true";
  }
  return out;
}

// Doubled dollars are single ones (manifest.cc).
std::string plain(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] == '$' && i + 1 < text.size() && text[i + 1] == '$') ++i;
  }
  return out;
}

std::vector<std::string> words_of(const json::array* command) {
  std::vector<std::string> out;
  if (command == nullptr) return out;
  for (const json::value& word : *command) {
    if (word.is_string()) out.emplace_back(word.get_string());
  }
  // The user's words follow those of the server.
  const auto bootstrap = std::ranges::find(out, kBootstrapPath);
  if (bootstrap != out.end() && bootstrap - out.begin() <= 2) out.erase(out.begin(), bootstrap + 1);
  return out;
}

void apply_container(Instance& out, const json::object& workload) {
  if (const json::value* process = find(workload, {"spec", "taskTemplate", "spec", "process"})) {
    if (!process->is_object()) return;
    out.entrypoint = words_of(array_at(process->get_object(), {"command"}));
    const json::object* token = named(array_at(process->get_object(), {"env"}), "name", kExecdTokenVariable);
    if (token != nullptr) out.execd_token = text(*token, {"value"});
    return;
  }
  const json::object* container = main_container(workload);
  if (container == nullptr) return;
  if (!out.labels.contains(std::string(label::kSnapshotId))) out.image = text(*container, {"image"});
  out.entrypoint = words_of(array_at(*container, {"command"}));
  for (std::string& word : out.entrypoint) word = plain(word);
  if (const json::object* token = named(array_at(*container, {"env"}), "name", kExecdTokenVariable)) {
    out.execd_token = plain(text(*token, {"value"}));
  }
}

}  // namespace

std::string sandbox_id(const json::object& object) { return std::string(kubernetes::label(object, label::kId)); }

std::string address_of(const json::object& workload, const json::object* pod) {
  if (pod != nullptr) {
    if (const std::string_view address = text(*pod, {"status", "podIP"}); !address.empty()) return std::string(address);
  }
  if (const json::array* addresses = array_at(workload, {"status", "podIPs"}); addresses != nullptr) {
    return addresses->empty() || !addresses->front().is_string() ? "" : std::string(addresses->front().get_string());
  }
  const auto endpoints = api::parse_json(kubernetes::annotation(workload, kEndpoints));
  if (!endpoints || !endpoints->is_array() || endpoints->get_array().empty()) return {};
  const json::value& first = endpoints->get_array().front();
  return first.is_string() ? std::string(first.get_string()) : "";
}

std::string pooled_pod(const json::object& workload) {
  const auto allocated = api::parse_json(kubernetes::annotation(workload, kAllocated));
  if (!allocated || !allocated->is_object()) return {};
  const json::array* pods = array_at(allocated->get_object(), {"pods"});
  if (pods == nullptr || pods->empty() || !pods->front().is_string()) return {};
  return std::string(pods->front().get_string());
}

bool container_runs(const json::object& pod) {
  const json::object* status = container_status(pod);
  return status != nullptr && find(*status, {"state", "running"}) != nullptr;
}

std::optional<PodTrouble> trouble_of(const json::object& pod) {
  if (auto trouble = waiting_trouble(array_at(pod, {"status", "initContainerStatuses"}))) return trouble;
  if (auto trouble = waiting_trouble(array_at(pod, {"status", "containerStatuses"}))) return trouble;
  const json::object* scheduled = named(array_at(pod, {"status", "conditions"}), "type", "PodScheduled");
  if (scheduled == nullptr || text(*scheduled, {"status"}) != "False") return std::nullopt;
  const std::string_view reason = text(*scheduled, {"reason"});
  return PodTrouble{std::string(reason), joined(reason, text(*scheduled, {"message"})), false};
}

Instance to_instance(const json::object& workload, const json::object* pod) {
  Instance out;
  out.id = sandbox_id(workload);
  apply_state(out, workload, pod);
  out.address = address_of(workload, pod);
  if (!out.address.empty()) out.ports = std::make_shared<PodPorts>(out.address);
  out.labels = labels_of(workload);
  out.created_at = time_at(workload, {"metadata", "creationTimestamp"});
  if (const auto deadline = parse_timestamp(deadline_of(workload))) out.expires_at = *deadline;
  out.egress_token = kubernetes::annotation(workload, kEgressTokenAnnotation);
  apply_container(out, workload);
  const kubernetes::Key key = kubernetes::key_of(workload);
  out.identifiers = {{"namespace", key.ns}, {is_agent_sandbox(workload) ? "sandbox" : "batchSandbox", key.name}};
  const std::string its_pod = pod == nullptr ? pooled_pod(workload) : kubernetes::key_of(*pod).name;
  if (!its_pod.empty()) out.identifiers["pod"] = its_pod;
  const std::string_view pool = text(workload, {"spec", "poolRef"});
  if (!pool.empty() && !its_pod.empty()) out.pool = pool;
  return out;
}

Route PodPorts::route(std::uint16_t port) const {
  const bool ipv6 = address_.contains(':');
  return {(ipv6 ? "[" + address_ + "]" : address_) + ":" + std::to_string(port), ""};
}

ClientRoute PodPorts::client_route(std::uint16_t port) const { return {route(port).origin, port == kExecdPort}; }

}  // namespace osb::runtime
