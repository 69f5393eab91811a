#include "controller/crds/crds.h"

#include <initializer_list>
#include <string_view>
#include <utility>

#include <boost/json/array.hpp>

#include "controller/names.h"
#include "yaml/writer.h"

namespace osb::controller {
namespace {

namespace json = boost::json;
using json::array;
using json::object;

// Schemas of single fields.
object described(object schema, std::string_view about) {
  schema["description"] = about;
  return schema;
}
object int32(int least = 0) { return {{"type", "integer"}, {"format", "int32"}, {"minimum", least}}; }
object counter() { return {{"type", "integer"}, {"format", "int32"}}; }
object int64() { return {{"type", "integer"}, {"format", "int64"}}; }
object text() { return {{"type", "string"}}; }
object moment() { return {{"type", "string"}, {"format", "date-time"}}; }
object one_of(std::initializer_list<std::string_view> words) {
  array all;
  for (const std::string_view each : words) all.emplace_back(each);
  return {{"type", "string"}, {"enum", std::move(all)}};
}
// A map that the API server keeps as it is: pod templates are checked when pods are made from them.
object anything() { return {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}}; }
object list_of(object items) { return {{"type", "array"}, {"items", std::move(items)}}; }
object number_or_percent() {
  return {{"anyOf", array{object{{"type", "integer"}}, object{{"type", "string"}}}},
          {"x-kubernetes-int-or-string", true}};
}

struct Field {
  std::string_view name;
  object schema;
  bool required = false;
};

object map_of(std::initializer_list<Field> fields) {
  object properties;
  array required;
  for (const Field& each : fields) {
    properties[each.name] = each.schema;
    if (each.required) required.emplace_back(each.name);
  }
  object out{{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) out["required"] = std::move(required);
  return out;
}

object conditions(std::initializer_list<std::string_view> types) {
  object list = list_of(map_of({{"type", one_of(types), true},
                                {"status", one_of({"True", "False"}), true},
                                {"reason", text()},
                                {"message", text()},
                                {"lastTransitionTime", moment()}}));
  list["x-kubernetes-list-type"] = "map";
  list["x-kubernetes-list-map-keys"] = array{"type"};
  return list;
}

struct Column {
  std::string_view name, type, path;
  bool wide = false;
};

struct Definition {
  const kubernetes::Resource& resource;
  std::string_view short_name;
  object spec, status;
  bool spec_required = false;
  std::initializer_list<Column> columns;
};

CrdFile make(const Definition& from) {
  array columns;
  for (const Column& each : from.columns) {
    object column{{"name", each.name}, {"type", each.type}, {"jsonPath", each.path}};
    if (each.wide) column["priority"] = 1;
    columns.emplace_back(std::move(column));
  }
  std::string singular(from.resource.kind);
  for (char& c : singular) c = static_cast<char>(c | 0x20);
  object names{{"plural", from.resource.plural},
               {"singular", singular},
               {"kind", from.resource.kind},
               {"listKind", from.resource.kind + "List"}};
  if (!from.short_name.empty()) names["shortNames"] = array{from.short_name};
  object schema = map_of({{"apiVersion", text()},
                          {"kind", text()},
                          {"metadata", {{"type", "object"}}},
                          {"spec", from.spec, from.spec_required},
                          {"status", from.status}});
  object version{{"name", from.resource.version},
                 {"served", true},
                 {"storage", true},
                 {"schema", {{"openAPIV3Schema", std::move(schema)}}},
                 {"subresources", {{"status", object()}}},
                 {"additionalPrinterColumns", std::move(columns)}};
  return {from.resource.group + "_" + from.resource.plural + ".yaml",
          {{"apiVersion", "apiextensions.k8s.io/v1"},
           {"kind", "CustomResourceDefinition"},
           {"metadata", {{"name", from.resource.plural + "." + from.resource.group}}},
           {"spec",
            {{"group", from.resource.group},
             {"names", std::move(names)},
             {"scope", "Namespaced"},
             {"versions", array{std::move(version)}}}}}};
}

object with_default(object schema, json::value value) {
  schema["default"] = std::move(value);
  return schema;
}

CrdFile batch_sandbox() {
  object pause{{"type", "boolean"}, {"nullable", true}};
  return make(
      {kBatchSandboxes,
       "bsbx",
       map_of({{"replicas", described(with_default(int32(), 1), "Number of pods.")},
               {"poolRef", described(text(),
                                     "A pool that gives the pods; \"*\": the controller chooses one; empty: "
                                     "pods are made from the template.")},
               {"template", described(anything(), "The PodTemplateSpec of the pods.")},
               {"shardPatches", described(list_of(anything()), "Element i is a strategic merge patch of pod i.")},
               {"expireTime", described(moment(), "The sandbox is deleted then.")},
               {"taskTemplate", described(anything(),
                                          "A task that runs in each pod: spec.process.command, args, env, "
                                          "workingDir, and spec.timeoutSeconds.")},
               {"shardTaskPatches", described(list_of(anything()), "Element i is a strategic merge patch of task i.")},
               {"taskResourcePolicyWhenCompleted",
                described(with_default(text(), "Retain"), "Retain or Release: pods of finished tasks go back early.")},
               {"pause", described(std::move(pause), "true: pause, false: resume, null: neither.")}}),
       map_of({{"observedGeneration", int64()},
               {"replicas", counter(), true},
               {"allocated", counter(), true},
               {"ready", counter(), true},
               {"taskRunning", counter(), true},
               {"taskSucceed", counter(), true},
               {"taskFailed", counter(), true},
               {"taskPending", counter(), true},
               {"taskUnknown", counter(), true},
               {"phase", one_of({"Pending", "Succeed", "Pausing", "Paused", "Resuming", "Failed"})},
               {"pauseObservedGeneration", int64()},
               {"conditions", conditions({"Ready", "Progressing", "Paused", "PauseFailed", "ResumeFailed", "PodFailed",
                                          "PoolAllocationPending"})}}),
       false,
       {{"DESIRED", "integer", ".spec.replicas"},
        {"TOTAL", "integer", ".status.replicas"},
        {"ALLOCATED", "integer", ".status.allocated"},
        {"Ready", "integer", ".status.ready"},
        {"TASK_RUNNING", "integer", ".status.taskRunning", true},
        {"TASK_SUCCEED", "integer", ".status.taskSucceed", true},
        {"TASK_FAILED", "integer", ".status.taskFailed", true},
        {"TASK_UNKNOWN", "integer", ".status.taskUnknown", true},
        {"EXPIRE", "string", ".spec.expireTime"},
        {"AGE", "date", ".metadata.creationTimestamp"}}});
}

CrdFile pool() {
  const object strategy = map_of({{"maxUnavailable", number_or_percent()}});
  return make({kPools,
               "",
               map_of({{"template", described(anything(), "The PodTemplateSpec of the pods.")},
                       {"capacitySpec",
                        map_of({{"bufferMax", described(int32(), "Most idle pods."), true},
                                {"bufferMin", described(int32(), "Least idle pods."), true},
                                {"poolMax", described(int32(), "Most pods, idle or not."), true},
                                {"poolMin", described(int32(), "Least pods, idle or not."), true}}),
                        true},
                       {"scaleStrategy", described(strategy, "Pods that may start at once: a number or a percentage.")},
                       {"updateStrategy", described(strategy, "Idle pods that may be replaced at once.")},
                       {"recycleStrategy",
                        map_of({{"type", described(with_default(one_of({"Delete", "Restart", "Noop"}), "Delete"),
                                                   "The treatment of a pod that a sandbox gives back.")}})}}),
               map_of({{"observedGeneration", int64()},
                       {"revision", text(), true},
                       {"total", counter(), true},
                       {"allocated", counter(), true},
                       {"available", counter(), true},
                       {"updated", counter()}}),
               true,
               {{"TOTAL", "integer", ".status.total"},
                {"ALLOCATED", "integer", ".status.allocated"},
                {"AVAILABLE", "integer", ".status.available"},
                {"UPDATED", "integer", ".status.updated"},
                {"AGE", "date", ".metadata.creationTimestamp"}}});
}

CrdFile snapshot() {
  return make(
      {kSnapshots,
       "sbxsnap",
       map_of({{"sandboxName", described(text(), "A BatchSandbox of the same namespace."), true}}),
       map_of(
           {{"phase", one_of({"Pending", "Committing", "Succeed", "Failed"})},
            {"containers",
             list_of(map_of({{"containerName", text(), true}, {"imageUri", text(), true}, {"imageDigest", text()}}))},
            {"conditions", conditions({"Ready", "Failed"})},
            {"sourcePodName", text()},
            {"sourceNodeName", text()},
            {"observedGeneration", int64()}}),
       true,
       {{"PHASE", "string", ".status.phase"},
        {"SANDBOX", "string", ".spec.sandboxName"},
        {"AGE", "date", ".metadata.creationTimestamp"}}});
}

}  // namespace

std::vector<CrdFile> crds() {
  std::vector<CrdFile> out;
  out.push_back(batch_sandbox());
  out.push_back(pool());
  out.push_back(snapshot());
  return out;
}

std::string crd_text(const CrdFile& file) {
  return "# Made by scripts/settings from src/controller/crds/crds.cc.\n" + yaml::to_text(file.definition, yaml::Keys::AsTheyAre);
}

}  // namespace osb::controller
