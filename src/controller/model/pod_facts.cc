#include "controller/model/pod_facts.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include <boost/json/array.hpp>

#include "base/parse_number.h"
#include "controller/names.h"

namespace osb::controller {
namespace {

using kubernetes::find;
using kubernetes::text;

const json::array& list_at(const json::object& object, std::initializer_list<std::string_view> path) {
  static const json::array kNone;
  const json::value* value = find(object, path);
  return value != nullptr && value->is_array() ? value->get_array() : kNone;
}

const json::object* condition(const json::object& pod, std::string_view type) {
  for (const json::value& each : list_at(pod, {"status", "conditions"})) {
    if (each.is_object() && text(each.get_object(), {"type"}) == type) return &each.get_object();
  }
  return nullptr;
}

std::string failure_of(const json::object& pod) {
  for (const std::string_view list : {"containerStatuses", "initContainerStatuses"}) {
    for (const json::value& each : list_at(pod, {"status", list})) {
      if (!each.is_object()) continue;
      const std::string_view reason = text(each.get_object(), {"state", "waiting", "reason"});
      for (const std::string_view fatal :
           {"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "CreateContainerConfigError"}) {
        if (reason == fatal) return std::string(fatal);
      }
    }
  }
  if (text(pod, {"status", "phase"}) != "Failed") return "";
  const std::string_view reason = text(pod, {"status", "reason"});
  return reason.empty() ? "PodFailed" : std::string(reason);
}

int index_of(const json::object& pod, std::string_view name) {
  std::string_view digits = kubernetes::label(pod, keys::kReplicaIndex);
  if (digits.empty()) {
    const std::size_t dash = name.rfind('-');
    if (dash != std::string_view::npos) digits = name.substr(dash + 1);
  }
  return parse_number<int>(digits).value_or(-1);
}

// Only these keys of an object stay.
void keep(json::object& object, std::initializer_list<std::string_view> keys) {
  json::object left;
  for (const std::string_view key : keys) {
    if (json::value* value = object.if_contains(key)) left[key] = std::move(*value);
  }
  object = std::move(left);
}

void keep_in(json::object& object, std::string_view key, std::initializer_list<std::string_view> keys) {
  json::value* value = object.if_contains(key);
  if (value != nullptr && value->is_object()) keep(value->get_object(), keys);
}

}  // namespace

PodFacts PodFacts::read(ObjectPtr pod) {
  PodFacts out;
  out.object = std::move(pod);
  const json::object& from = *out.object;
  out.name = text(from, {"metadata", "name"});
  out.uid = kubernetes::uid_of(from);
  out.created = text(from, {"metadata", "creationTimestamp"});
  out.phase = text(from, {"status", "phase"});
  out.ip = text(from, {"status", "podIP"});
  out.node = text(from, {"spec", "nodeName"});
  out.claim = kubernetes::annotation(from, keys::kClaim);
  out.revision = kubernetes::label(from, keys::kPoolRevision);
  out.failure = failure_of(from);
  out.index = index_of(from, out.name);
  out.deleting = kubernetes::is_deleting(from);
  out.evict = find(from, {"metadata", "labels", keys::kEvict}) != nullptr;
  if (const json::object* ready = condition(from, "Ready"); ready != nullptr && text(*ready, {"status"}) == "True") {
    out.ready = out.phase == "Running" && !out.deleting;
    out.ready_since = text(*ready, {"lastTransitionTime"});
  }
  if (const json::object* scheduled = condition(from, "PodScheduled");
      scheduled != nullptr && text(*scheduled, {"reason"}) == "Unschedulable") {
    out.unschedulable = text(*scheduled, {"message"});
    if (out.unschedulable.empty()) out.unschedulable = "no node takes the pod";
  }
  for (const json::value& each : list_at(from, {"status", "containerStatuses"})) {
    if (each.is_object()) out.restarts += kubernetes::number(each.get_object(), {"restartCount"});
  }
  return out;
}

void trim_pod(json::object& pod) {
  keep(pod, {"apiVersion", "kind", "metadata", "spec", "status"});
  keep_in(pod, "metadata",
          {"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "labels",
           "annotations", "ownerReferences"});
  if (json::value* metadata = pod.if_contains("metadata"); metadata != nullptr && metadata->is_object()) {
    keep_in(metadata->get_object(), "labels",
            {keys::kReplicaIndex, keys::kReplicaOf, keys::kPoolName, keys::kPoolRevision, keys::kEvict});
    keep_in(metadata->get_object(), "annotations", {keys::kClaim, keys::kRestartRecord});
  }
  keep_in(pod, "spec", {"nodeName"});
  keep_in(pod, "status", {"phase", "reason", "podIP", "conditions", "containerStatuses", "initContainerStatuses"});
}

}  // namespace osb::controller
