#include "runtime/kubernetes/workload.h"

#include <algorithm>

#include <boost/json/array.hpp>

#include "api/json.h"
#include "base/out_of_memory.h"
#include "base/ports.h"
#include "kubernetes/object.h"
#include "runtime/kubernetes/manifest.h"
#include "runtime/labels.h"

namespace osb::runtime {

namespace json = boost::json;
using kubernetes::find;
using kubernetes::number;
using kubernetes::text;

namespace {

constexpr std::string_view kEndpoints = "sandbox.opensandbox.io/endpoints";

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

const json::object* main_container(const json::object& workload) {
  const json::array* containers = array_at(workload, {"spec", "template", "spec", "containers"});
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

// The first of the controller's conditions that tells a failure.
std::string failure_of(const json::object& workload) {
  const json::array* conditions = array_at(workload, {"status", "conditions"});
  for (const std::string_view type : {"PodFailed", "ResumeFailed", "PauseFailed"}) {
    const json::object* condition = named(conditions, "type", type);
    if (condition == nullptr || text(*condition, {"status"}) != "True") continue;
    return joined(text(*condition, {"reason"}), text(*condition, {"message"}));
  }
  return "the controller reports a failure";
}

void apply_state(Instance& out, const json::object& workload, const json::object* pod) {
  const std::string_view phase = text(workload, {"status", "phase"});
  const std::string_view pod_phase = pod == nullptr ? "" : text(*pod, {"status", "phase"});
  if (kubernetes::is_deleting(workload)) {
    out.state = InstanceState::Removing;
  } else if (phase == "Paused" || phase == "Pausing") {
    out.state = InstanceState::Paused;
  } else if (pod_phase == "Failed" || pod_phase == "Succeeded") {
    apply_end(out, *pod);
  } else if (phase == "Failed") {
    out.state = InstanceState::Ended;
    out.reason = "POD_FAILED";
    out.message = failure_of(workload);
  } else if (phase == "Succeed" || phase == "Running") {
    out.state = InstanceState::Running;
  } else if (const auto trouble = pod == nullptr ? std::nullopt : trouble_of(*pod)) {
    out.message = trouble->message;
  } else {
    out.message = pod == nullptr                             ? "waiting for the pod"
                  : text(*pod, {"spec", "nodeName"}).empty() ? "waiting for a node"
                  : container_runs(*pod)                     ? "waiting for execd"
                                                             : "starting the containers";
  }
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
  if (const std::string_view deadline = text(workload, {"spec", "expireTime"}); !deadline.empty()) {
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

void apply_container(Instance& out, const json::object& workload) {
  const json::object* container = main_container(workload);
  if (container == nullptr) return;
  if (!out.labels.contains(std::string(label::kSnapshotId))) out.image = text(*container, {"image"});
  if (const json::array* command = array_at(*container, {"command"})) {
    for (const json::value& word : *command) {
      if (word.is_string()) out.entrypoint.push_back(plain(word.get_string()));
    }
  }
  if (!out.entrypoint.empty() && out.entrypoint.front() == kBootstrapPath) {
    out.entrypoint.erase(out.entrypoint.begin());
  }
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
  const auto endpoints = api::parse_json(kubernetes::annotation(workload, kEndpoints));
  if (!endpoints || !endpoints->is_array() || endpoints->get_array().empty()) return {};
  const json::value& first = endpoints->get_array().front();
  return first.is_string() ? std::string(first.get_string()) : "";
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
  out.expires_at = time_at(workload, {"spec", "expireTime"});
  apply_container(out, workload);
  const kubernetes::Key key = kubernetes::key_of(workload);
  out.identifiers = {{"namespace", key.ns}, {"batchSandbox", key.name}};
  if (pod != nullptr) out.identifiers["pod"] = kubernetes::key_of(*pod).name;
  return out;
}

Route PodPorts::route(std::uint16_t port) const {
  const bool ipv6 = address_.contains(':');
  return {(ipv6 ? "[" + address_ + "]" : address_) + ":" + std::to_string(port), ""};
}

ClientRoute PodPorts::client_route(std::uint16_t port) const { return {route(port).origin, port == kExecdPort}; }

}  // namespace osb::runtime
