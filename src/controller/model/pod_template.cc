#include "controller/model/pod_template.h"

#include <utility>

#include <boost/json/array.hpp>

#include "controller/names.h"
#include "kubernetes/patch.h"

namespace osb::controller {
namespace {

// A pod with the parts of a PodTemplateSpec that pods take over.
Result<json::object> from_template(const json::object& pod_template) {
  json::object metadata;
  for (const std::string_view name : {"labels", "annotations", "finalizers"}) {
    const json::value* value = kubernetes::find(pod_template, {"metadata", name});
    if (value != nullptr && !value->is_null()) metadata[name] = *value;
  }
  const json::value* spec = pod_template.if_contains("spec");
  if (spec == nullptr || !spec->is_object()) {
    return fail(Code::InvalidRequest, "spec.template.spec: expected an object");
  }
  return json::object{{"metadata", std::move(metadata)}, {"spec", *spec}};
}

}  // namespace

std::string label_value(const std::string& name) {
  constexpr std::size_t kMost = 63, kHash = 16;
  if (name.size() <= kMost) return name;
  return name.substr(0, kMost - kHash - 1) + "-" + template_revision({{"name", name}});
}

std::string replica_name(const BatchSandbox& sandbox, int index) {
  return sandbox.key.name + "-" + std::to_string(index);
}

Result<json::object> replica_pod(const BatchSandbox& sandbox, int index) {
  if (sandbox.pod_template == nullptr) {
    return fail(Code::InvalidRequest, "spec.template: missing, and spec.poolRef names no pool");
  }
  auto pod = from_template(*sandbox.pod_template);
  if (!pod) return pod;
  if (const json::value* patches = kubernetes::find(*sandbox.object, {"spec", "shardPatches"});
      patches != nullptr && !patches->is_null()) {
    const std::string at = "spec.shardPatches[" + std::to_string(index) + "]";
    if (!patches->is_array()) return fail(Code::InvalidRequest, "spec.shardPatches: expected a list");
    if (static_cast<std::size_t>(index) < patches->get_array().size()) {
      const json::value& patch = patches->get_array()[static_cast<std::size_t>(index)];
      if (!patch.is_null() && !patch.is_object()) return fail(Code::InvalidRequest, at + ": expected an object");
      if (patch.is_object()) {
        if (auto done = kubernetes::strategic_merge_patch(*pod, patch.get_object()); !done) {
          return with_context(at, done.error());
        }
      }
    }
  }
  json::object& metadata = kubernetes::make_object(*pod, {"metadata"});
  json::object& labels = kubernetes::make_object(metadata, {"labels"});
  labels[keys::kReplicaIndex] = std::to_string(index);
  labels[keys::kReplicaOf] = label_value(sandbox.key.name);
  metadata["name"] = replica_name(sandbox, index);
  metadata["namespace"] = sandbox.key.ns;
  metadata["ownerReferences"] = json::array{kubernetes::owner_reference(*sandbox.object, true)};
  return pod;
}

Result<json::object> pool_pod(const Pool& pool) {
  if (pool.pod_template == nullptr) return fail(Code::InvalidRequest, "spec.template: expected an object");
  auto pod = from_template(*pool.pod_template);
  if (!pod) return pod;
  json::object& metadata = kubernetes::make_object(*pod, {"metadata"});
  json::object& labels = kubernetes::make_object(metadata, {"labels"});
  labels[keys::kPoolName] = label_value(pool.key.name);
  labels[keys::kPoolRevision] = pool.revision;
  labels.erase(keys::kEvict);
  // A template must not make pods that look used.
  if (json::value* annotations = metadata.if_contains("annotations");
      annotations != nullptr && annotations->is_object()) {
    annotations->get_object().erase(keys::kClaim);
    annotations->get_object().erase(keys::kRestartRecord);
  }
  metadata["generateName"] = pool.key.name + "-";
  metadata["namespace"] = pool.key.ns;
  metadata["ownerReferences"] = json::array{kubernetes::owner_reference(*pool.object, true)};
  return pod;
}

void set_finalizer(json::object& patch, const json::object& current, std::string_view name, bool present) {
  json::array list;
  const json::value* before = kubernetes::find(current, {"metadata", "finalizers"});
  if (before != nullptr && before->is_array()) {
    for (const json::value& each : before->get_array()) {
      if (each != json::value(name)) list.push_back(each);
    }
  }
  if (present && kubernetes::has_finalizer(current, name)) return;
  if (present) list.emplace_back(name);
  json::object& metadata = kubernetes::make_object(patch, {"metadata"});
  if (list.empty()) {
    metadata["finalizers"] = nullptr;
  } else {
    metadata["finalizers"] = std::move(list);
  }
}

}  // namespace osb::controller
