#include "runtime/kubernetes/manifest.h"

#include <algorithm>
#include <set>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "api/isolation_extension.h"
#include "api/lifecycle_entrypoint.h"
#include "api/lifecycle_error.h"
#include "base/base64.h"
#include "base/json_escape.h"
#include "base/parse_number.h"
#include "kubernetes/object.h"
#include "kubernetes/patch.h"
#include "runtime/kubernetes/pod_spec.h"
#include "runtime/labels.h"
#include "tls/sha256.h"

namespace osb::runtime {

namespace json = boost::json;
using kubernetes::make_object;

namespace {

constexpr std::size_t kLongestName = 63, kDigestDigits = 8;
// Labels of the contract; the other names below opensandbox.io/ are annotations, whose values are free.
constexpr std::string_view kLabels[] = {label::kId, label::kManualCleanup, label::kSnapshotId};

bool is_resource(std::string_view name) {
  return name == "cpu" || name == "memory" || name == "gpu" || name == "ephemeral-storage" || name.contains('/') ||
         name.starts_with("hugepages-");
}

Result<void> check_resources(const std::optional<api::StringMap>& resources, std::string_view field) {
  if (!resources) return {};
  for (const auto& [name, amount] : *resources) {
    const std::string pointer = api::join_pointer(field, name);
    if (!is_resource(name)) return api::invalid_parameter(pointer, "a cluster has no such resource");
    if (name == "gpu" && parse_number<std::uint32_t>(amount).value_or(0) == 0) {
      return api::invalid_parameter(pointer, "expected a positive number of GPUs");
    }
  }
  return {};
}

std::set<std::string> template_volumes(const KubernetesOptions& options) {
  std::set<std::string> out{std::string(kBinVolume), std::string(kEgressVolume)};
  const json::value* volumes = operators_pod(options, {"spec", "volumes"});
  if (volumes == nullptr || !volumes->is_array()) return out;
  for (const json::value& each : volumes->get_array()) {
    if (each.is_object()) out.emplace(kubernetes::text(each.get_object(), {"name"}));
  }
  return out;
}

struct Marks {
  json::object labels, annotations;
};

Marks marks_of(const SandboxSpec& spec) {
  Marks out;
  for (const auto& [name, value] : spec.labels) {
    if (name == label::kExpiresAt) continue;  // spec.expireTime
    const bool is_label = !name.starts_with(label::kPrefix) || std::ranges::find(kLabels, name) != std::end(kLabels);
    (is_label ? out.labels : out.annotations)[name] = value;
  }
  out.labels[label::kId] = spec.id;
  // For a gateway, which asks for the first, and for servers without the record.
  if (!spec.access_token.empty()) out.annotations[kAccessTokenAnnotation] = spec.access_token;
  if (!spec.egress_token.empty()) out.annotations[kEgressTokenAnnotation] = spec.egress_token;
  return out;
}

// Only where the operator's template does not say it.
void set_default(json::object& object, std::string_view key, json::value value) {
  if (!object.contains(key)) object[key] = std::move(value);
}

std::optional<std::string> deadline_of(const SandboxSpec& spec) {
  const auto found = spec.labels.find(std::string(label::kExpiresAt));
  return found == spec.labels.end() ? std::nullopt : std::optional(found->second);
}

json::object object_of(const kubernetes::Resource& resource, const std::string& name, const Marks& marks,
                       const KubernetesOptions& options, json::object spec) {
  json::object metadata{{"name", name}, {"namespace", options.ns}, {"labels", marks.labels}};
  if (!marks.annotations.empty()) metadata["annotations"] = marks.annotations;
  return {{"apiVersion", resource.api_version()},
          {"kind", resource.kind},
          {"metadata", std::move(metadata)},
          {"spec", std::move(spec)}};
}

// Over the operator's template; a deadline in that is none of a sandbox's.
json::object merged(const KubernetesOptions& options, std::string_view pod_field, const json::object& over) {
  json::value out = options.workload;
  for (const char* name : {"expireTime", "shutdownTime"}) make_object(out.get_object(), {"spec"}).erase(name);
  kubernetes::merge_patch(out, over);
  json::object& pod = make_object(out.get_object(), {"spec", pod_field, "spec"});
  set_default(pod, "restartPolicy", "Never");
  // A deleted sandbox ends at once, as on the other backends; the cluster's default lets its code run on for 30 s.
  set_default(pod, "terminationGracePeriodSeconds", 1);
  set_default(pod, "automountServiceAccountToken", false);
  set_default(pod, "enableServiceLinks", false);
  return std::move(out.get_object());
}

std::string registry_of(std::string_view image) {
  const std::string_view first = image.substr(0, image.find('/'));
  const bool named = image.contains('/') && (first.contains('.') || first.contains(':') || first == "localhost");
  return named ? std::string(first) : "https://index.docker.io/v1/";
}

}  // namespace

std::string pull_secret_name(std::string_view id) { return "opensandbox-image-auth-" + std::string(id); }

Result<void> check_for_cluster(const api::CreateSandbox& create, const KubernetesOptions& options) {
  if (auto ok = check_resources(create.resource_limits, "/resourceLimits"); !ok) return ok;
  if (auto ok = check_resources(create.resource_requests, "/resourceRequests"); !ok) return ok;
  if (auto words = api::entrypoint_words(create.entrypoint); !words) return Failure(words.error());
  if (create.extensions.contains(std::string(api::kIsolationExtension))) {
    return api::invalid_parameter(api::join_pointer("/extensions", api::kIsolationExtension),
                                  "not available on kubernetes yet");
  }
  const std::set<std::string> taken = template_volumes(options);
  for (std::size_t i = 0; i < create.volumes.size(); ++i) {
    const std::string pointer = "/volumes/" + std::to_string(i);
    if (create.volumes[i].ossfs) return api::invalid_parameter(pointer + "/ossfs", "not available on kubernetes");
    if (taken.contains(create.volumes[i].name)) {
      return api::invalid_parameter(pointer + "/name", "the pod has a volume of this name already");
    }
  }
  if (!create.platform) return {};
  for (const auto& [key, wanted] : {std::pair(kOsLabel, create.platform->os), {kArchLabel, create.platform->arch}}) {
    const json::value* fixed = operators_pod(options, {"spec", "nodeSelector", key});
    if (fixed != nullptr && *fixed != json::value(wanted)) {
      return api::invalid_parameter(
          "/platform", "the server's template allows only " + std::string(key) + "=" + json::serialize(*fixed));
    }
  }
  return {};
}

json::object batch_sandbox(const SandboxSpec& spec, const KubernetesOptions& options, const std::string& image) {
  const Marks marks = marks_of(spec);
  json::object workload{{"replicas", 1},
                        {"template",
                         {{"metadata", {{"labels", marks.labels}, {"annotations", marks.annotations}}},
                          {"spec", pod_spec(spec, options, image)}}}};
  if (auto deadline = deadline_of(spec)) workload["expireTime"] = *deadline;
  return merged(options, "template", object_of(kBatchSandboxes, spec.id, marks, options, std::move(workload)));
}

json::object pooled_sandbox(const SandboxSpec& spec, const KubernetesOptions& options) {
  json::array command{kBootstrapPath};
  for (const std::string& word : api::entrypoint_words(spec.create->entrypoint).value_or(spec.create->entrypoint)) {
    command.push_back(json::value(word));
  }
  if (command.size() == 1) command.insert(command.end(), {"tail", "-f", "/dev/null"});
  const json::object process{{"command", std::move(command)}, {"env", pod_environment(spec, options, false)}};
  json::object workload{
      {"replicas", 1}, {"poolRef", spec.create->pool_ref()}, {"taskTemplate", {{"spec", {{"process", process}}}}}};
  if (auto deadline = deadline_of(spec)) workload["expireTime"] = *deadline;
  return object_of(kBatchSandboxes, spec.id, marks_of(spec), options, std::move(workload));
}

json::object agent_sandbox(const SandboxSpec& spec, const KubernetesOptions& options, const std::string& image) {
  const Marks marks = marks_of(spec);
  json::object workload{
      {"operatingMode", "Running"},
      {"shutdownPolicy", options.shutdown_policy},
      {"podTemplate", {{"metadata", {{"labels", marks.labels}}}, {"spec", pod_spec(spec, options, image)}}}};
  if (auto deadline = deadline_of(spec)) workload["shutdownTime"] = *deadline;
  const std::string name = agent_sandbox_name(spec.id);
  return merged(options, "podTemplate", object_of(kAgentSandboxes, name, marks, options, std::move(workload)));
}

std::string agent_sandbox_name(std::string_view id) {
  std::string out;
  for (const char c : id) {
    const char low = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 32) : c;
    const bool plain = (low >= 'a' && low <= 'z') || (low >= '0' && low <= '9');
    if (plain) {
      out += low;
    } else if (!out.empty() && out.back() != '-') {
      out += '-';
    }
  }
  while (out.ends_with('-')) out.pop_back();
  if (out.empty() || out.front() < 'a') out = "sandbox-" + out;
  if (out.size() <= kLongestName) return out;
  std::string digest;
  for (const std::uint8_t byte : tls::sha256(id)) {
    digest += "0123456789abcdef"[byte >> 4];
    digest += "0123456789abcdef"[byte & 15];
  }
  out.resize(kLongestName - kDigestDigits - 1);
  while (out.ends_with('-')) out.pop_back();
  return out + "-" + digest.substr(0, kDigestDigits);
}

std::optional<json::object> pull_secret(const SandboxSpec& spec) {
  if (!spec.create->image || !spec.create->image->auth) return std::nullopt;
  const api::ImageLogin& login = *spec.create->image->auth;
  const json::object auth{{"username", login.username},
                          {"password", login.password},
                          {"auth", encode_base64(login.username + ":" + login.password)}};
  const std::string docker = json::serialize(json::object{{"auths", {{registry_of(spec.create->image->uri), auth}}}});
  return json::object{{"metadata", {{"name", pull_secret_name(spec.id)}, {"labels", {{label::kId, spec.id}}}}},
                      {"type", "kubernetes.io/dockerconfigjson"},
                      {"data", {{".dockerconfigjson", encode_base64(docker)}}}};
}

std::vector<Claim> claims(const api::CreateSandbox& create, const KubernetesOptions& options) {
  std::vector<Claim> out;
  std::set<std::string> seen;
  for (const api::Volume& volume : create.volumes) {
    if (!volume.pvc || !seen.insert(volume.pvc->claim_name).second) continue;
    const api::PvcVolume& pvc = *volume.pvc;
    json::array modes;
    for (const std::string& mode : pvc.access_modes.value_or(std::vector<std::string>{"ReadWriteOnce"})) {
      modes.push_back(json::value(mode));
    }
    const std::string& size = pvc.storage.empty() ? options.volume_default_size : pvc.storage;
    json::object spec{{"accessModes", std::move(modes)}, {"resources", {{"requests", {{"storage", size}}}}}};
    if (!pvc.storage_class.empty()) spec["storageClassName"] = pvc.storage_class;
    out.push_back({json::object{{"metadata", {{"name", pvc.claim_name}}}, {"spec", std::move(spec)}},
                   pvc.create_if_not_exists, pvc.delete_on_sandbox_termination});
  }
  return out;
}

}  // namespace osb::runtime
