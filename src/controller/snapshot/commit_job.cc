#include "controller/snapshot/commit_job.h"

#include <algorithm>
#include <utility>

#include <boost/json/array.hpp>

#include "api/json.h"
#include "controller/model/pod_template.h"
#include "controller/names.h"
#include "tls/sha256.h"

namespace osb::controller {
namespace {

using kubernetes::text;

constexpr std::string_view kPlainPrefix = "osb-snap-";

std::string name_of(const json::object& object) { return std::string(text(object, {"metadata", "name"})); }

std::string tag_of(const json::object& snapshot, const BatchSandbox& sandbox) {
  if (kubernetes::controller_uid(snapshot) == sandbox.uid && !sandbox.uid.empty()) {
    return "snap-gen" + std::to_string(sandbox.generation);
  }
  const std::string name = name_of(snapshot);
  const std::string hex = name.starts_with(kPlainPrefix) ? name.substr(kPlainPrefix.size()) : "";
  if (hex.size() == 32 && hex.find_first_not_of("0123456789abcdef") == hex.npos) return "snap-" + hex;
  std::string digest;
  for (const std::uint8_t byte : tls::sha256(name)) {
    digest += "0123456789abcdef"[byte >> 4];
    digest += "0123456789abcdef"[byte & 15];
  }
  return "snap-" + digest.substr(0, 32);
}

json::object job(const json::object& snapshot, const CommitSource& source, const SnapshotOptions& options,
                 std::string name, int retries, json::array args) {
  json::array env{json::object{{"name", "CONTAINERD_SOCKET"}, {"value", "/var/run/containerd/containerd.sock"}}};
  if (options.registry_insecure)
    env.emplace_back(json::object{{"name", "SNAPSHOT_REGISTRY_INSECURE"}, {"value", "true"}});
  json::array mounts{json::object{{"name", "containerd"}, {"mountPath", "/var/run/containerd/containerd.sock"}}};
  json::array volumes{
      json::object{{"name", "containerd"}, {"hostPath", {{"path", options.containerd_socket}, {"type", "Socket"}}}}};
  if (!options.push_secret.empty()) {
    mounts.emplace_back(
        json::object{{"name", "registry"}, {"mountPath", "/var/run/opensandbox/registry"}, {"readOnly", true}});
    json::object item{{"key", ".dockerconfigjson"}, {"path", "config.json"}};
    volumes.emplace_back(
        json::object{{"name", "registry"},
                     {"secret", {{"secretName", options.push_secret}, {"items", json::array{std::move(item)}}}}});
  }
  json::object container{
      {"name", "commit"},
      {"image", options.committer_image},
      {"imagePullPolicy", "IfNotPresent"},
      {"command", json::array{"/usr/local/bin/image-committer"}},
      {"args", std::move(args)},
      {"env", std::move(env)},
      {"volumeMounts", std::move(mounts)},
      {"securityContext",
       {{"runAsUser", 0}, {"allowPrivilegeEscalation", false}, {"capabilities", {{"drop", json::array{"ALL"}}}}}}};
  json::object pod{{"nodeName", source.node},
                   {"restartPolicy", "Never"},
                   {"automountServiceAccountToken", false},
                   {"containers", json::array{std::move(container)}},
                   {"volumes", std::move(volumes)}};
  return {{"metadata",
           {{"name", std::move(name)},
            {"labels", {{keys::kSnapshotName, label_value(name_of(snapshot))}, {keys::kNodeAccess, "true"}}},
            {"ownerReferences", json::array{kubernetes::owner_reference(snapshot, true)}}}},
          {"spec",
           {{"backoffLimit", retries},
            {"ttlSecondsAfterFinished", 300},
            {"activeDeadlineSeconds", options.job_timeout.count()},
            {"template", {{"spec", std::move(pod)}}}}}};
}

const json::object* job_condition(const json::object& job, std::string_view type) {
  const json::value* list = kubernetes::find(job, {"status", "conditions"});
  if (list == nullptr || !list->is_array()) return nullptr;
  for (const json::value& each : list->get_array()) {
    if (each.is_object() && text(each.get_object(), {"type"}) == type &&
        text(each.get_object(), {"status"}) == "True") {
      return &each.get_object();
    }
  }
  return nullptr;
}

}  // namespace

std::string snapshot_image(const std::string& registry, const json::object& snapshot, const BatchSandbox& sandbox,
                           const std::string& container) {
  std::string base = registry;
  while (base.ends_with('/')) base.pop_back();
  return base + "/" + sandbox.key.name + "-" + container + ":" + tag_of(snapshot, sandbox);
}

std::string commit_job_name(const json::object& snapshot) { return name_of(snapshot) + "-commit"; }
std::string unpause_job_name(const json::object& snapshot) { return name_of(snapshot) + "-unpause"; }

json::object commit_job(const json::object& snapshot, const CommitSource& source, const SnapshotOptions& options) {
  json::array args{source.pod, text(snapshot, {"metadata", "namespace"})};
  for (const CommittedContainer& each : source.containers) args.emplace_back(each.name + ":" + each.image);
  return job(snapshot, source, options, commit_job_name(snapshot), 3, std::move(args));
}

json::object unpause_job(const json::object& snapshot, const CommitSource& source, const SnapshotOptions& options) {
  json::array args{"unpause", source.pod, text(snapshot, {"metadata", "namespace"})};
  for (const CommittedContainer& each : source.containers) args.emplace_back(each.name);
  return job(snapshot, source, options, unpause_job_name(snapshot), 0, std::move(args));
}

JobState job_state(const json::object& job) {
  if (job_condition(job, "Failed") != nullptr) return JobState::Failed;
  if (job_condition(job, "Complete") != nullptr || kubernetes::number(job, {"status", "succeeded"}) > 0) {
    return JobState::Succeeded;
  }
  return JobState::Running;
}

std::string job_failure(const json::object& job, std::string_view reason) {
  const json::object* failed = job_condition(job, "Failed");
  std::string out = "the job failed";
  if (failed != nullptr) {
    out = std::string(text(*failed, {"reason"})) + ": " + std::string(text(*failed, {"message"}));
  }
  return reason.empty() ? out : std::string(reason) + " (" + out + ")";
}

std::optional<LastWords> last_words(const json::object& pod) {
  const json::value* list = kubernetes::find(pod, {"status", "containerStatuses"});
  if (list == nullptr || !list->is_array()) return std::nullopt;
  for (const json::value& each : list->get_array()) {
    if (!each.is_object() || text(each.get_object(), {"name"}) != "commit") continue;
    const std::string message(text(each.get_object(), {"state", "terminated", "message"}));
    if (!message.empty()) {
      return LastWords{message, std::string(text(each.get_object(), {"state", "terminated", "finishedAt"}))};
    }
  }
  return std::nullopt;
}

std::vector<CommittedContainer> parse_committed(std::string_view message) {
  std::vector<CommittedContainer> out;
  const auto value = api::parse_json(message);
  if (!value || !value->is_object()) return out;
  const json::value* list = value->get_object().if_contains("containers");
  if (list == nullptr || !list->is_array()) return out;
  for (const json::value& each : list->get_array()) {
    if (!each.is_object()) continue;
    const json::object& from = each.get_object();
    out.push_back(
        {std::string(text(from, {"name"})), std::string(text(from, {"image"})), std::string(text(from, {"digest"}))});
  }
  return out;
}

}  // namespace osb::controller
