#include "controller/model/batch_sandbox.h"

#include <utility>

#include "controller/names.h"

namespace osb::controller {
namespace {

PodList read_list(const BatchSandbox& from, std::string_view annotation, std::vector<std::string>& problems) {
  auto list = PodList::parse(kubernetes::annotation(*from.object, annotation));
  if (list) return std::move(*list);
  problems.push_back("annotation " + std::string(annotation) + ": " + list.error().message);
  return {};
}

}  // namespace

BatchSandbox BatchSandbox::read(ObjectPtr object) {
  BatchSandbox out;
  out.object = std::move(object);
  const json::object& from = *out.object;
  out.key = kubernetes::key_of(from);
  out.uid = kubernetes::uid_of(from);
  out.created = kubernetes::text(from, {"metadata", "creationTimestamp"});
  out.generation = kubernetes::number(from, {"metadata", "generation"});
  out.deleting = kubernetes::is_deleting(from);
  const auto spec = [&](std::string_view name) { return kubernetes::find(from, {"spec", name}); };
  if (const json::value* value = spec("replicas"); value != nullptr && !value->is_null()) {
    const std::int64_t* count = value->if_int64();
    if (count == nullptr || *count < 0 || *count > kMostReplicas) {
      out.problems.push_back("spec.replicas: expected a number from 0 to " + std::to_string(kMostReplicas));
      out.replicas = 0;
    } else {
      out.replicas = static_cast<int>(*count);
    }
  }
  if (const json::value* value = spec("poolRef"); value != nullptr && !value->is_null()) {
    if (value->is_string()) {
      out.pool = value->get_string();
    } else {
      out.problems.push_back("spec.poolRef: expected a text");
    }
  }
  if (const json::value* value = spec("template"); value != nullptr && !value->is_null()) {
    out.pod_template = value->if_object();
    if (out.pod_template == nullptr) out.problems.push_back("spec.template: expected an object");
  }
  if (const json::value* value = spec("expireTime"); value != nullptr && !value->is_null()) {
    const auto time = value->is_string() ? parse_timestamp(value->get_string())
                                         : Result<Timestamp>(fail(Code::InvalidRequest, "expected a text"));
    if (time) {
      out.expires = *time;
    } else {
      out.problems.push_back("spec.expireTime: " + time.error().message);
    }
  }
  if (const json::value* value = spec("pause"); value != nullptr && value->is_bool()) out.pause = value->get_bool();
  if (const json::value* value = spec("taskTemplate"); value != nullptr && !value->is_null()) {
    out.has_tasks = value->is_object();
    if (!out.has_tasks) out.problems.push_back("spec.taskTemplate: expected an object");
  }
  out.releases_finished = kubernetes::text(from, {"spec", "taskResourcePolicyWhenCompleted"}) == "Release";
  out.allocated = read_list(out, keys::kAllocated, out.problems);
  out.release = read_list(out, keys::kRelease, out.problems);
  out.released = read_list(out, keys::kReleased, out.problems);
  return out;
}

}  // namespace osb::controller
