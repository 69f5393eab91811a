#include "runtime/kubernetes/manifest.h"

#include <algorithm>
#include <set>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "api/lifecycle_entrypoint.h"
#include "api/lifecycle_error.h"
#include "base/base64.h"
#include "base/json_escape.h"
#include "base/parse_number.h"
#include "kubernetes/object.h"
#include "kubernetes/patch.h"
#include "runtime/labels.h"

namespace osb::runtime {

namespace json = boost::json;
using kubernetes::find;
using kubernetes::make_object;

namespace {

constexpr std::string_view kBinVolume = "opensandbox-bin";
constexpr std::string_view kBinPath = "/opt/opensandbox";
constexpr std::string_view kOsLabel = "kubernetes.io/os", kArchLabel = "kubernetes.io/arch";
constexpr std::string_view kSecureToken = "opensandbox.io/secure-access-token";
// As on Docker.
constexpr std::string_view kDropped[] = {"AUDIT_WRITE", "MKNOD",      "NET_ADMIN", "NET_RAW",       "SYS_ADMIN",
                                         "SYS_MODULE",  "SYS_PTRACE", "SYS_TIME",  "SYS_TTY_CONFIG"};
// Labels of the contract; the other names below opensandbox.io/ are annotations, whose values are free.
constexpr std::string_view kLabels[] = {label::kId, label::kManualCleanup, label::kSnapshotId};

// Kubernetes replaces $(NAME) in commands and variables; a doubled dollar is one that stays.
std::string literal(std::string_view text) {
  std::string out;
  for (const char c : text) out.append(c == '$' ? 2 : 1, c);
  return out;
}

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

json::object resources_of(const api::StringMap& amounts) {
  json::object out;
  for (const auto& [name, amount] : amounts) out[name == "gpu" ? "nvidia.com/gpu" : name] = amount;
  return out;
}

std::set<std::string> template_volumes(const KubernetesOptions& options) {
  std::set<std::string> out{std::string(kBinVolume)};
  const json::value* volumes = find(options.workload, {"spec", "template", "spec", "volumes"});
  if (volumes == nullptr || !volumes->is_array()) return out;
  for (const json::value& each : volumes->get_array()) {
    if (each.is_object()) out.emplace(kubernetes::text(each.get_object(), {"name"}));
  }
  return out;
}

struct Mounts {
  json::array volumes, mounts;
};

Mounts mounts_of(const api::CreateSandbox& create) {
  Mounts out;
  std::map<std::string, std::string> claims;  // claim -> the volume that has it
  for (const api::Volume& volume : create.volumes) {
    std::string name = volume.name;
    if (volume.pvc) {
      const auto [known, fresh] = claims.try_emplace(volume.pvc->claim_name, name);
      name = known->second;
      if (fresh) {
        out.volumes.push_back(
            json::object{{"name", name}, {"persistentVolumeClaim", {{"claimName", volume.pvc->claim_name}}}});
      }
    } else if (volume.host) {
      out.volumes.push_back(
          json::object{{"name", name}, {"hostPath", {{"path", volume.host->path}, {"type", "DirectoryOrCreate"}}}});
    }
    json::object mount{{"name", name}, {"mountPath", volume.mount_path}, {"readOnly", volume.read_only}};
    if (!volume.sub_path.empty()) mount["subPath"] = volume.sub_path;
    out.mounts.push_back(std::move(mount));
  }
  return out;
}

json::array environment(const SandboxSpec& spec, const KubernetesOptions& options) {
  json::array out;
  const auto add = [&](std::string_view name, std::string_view value) {
    out.push_back(json::object{{"name", name}, {"value", literal(value)}});
  };
  const std::set<std::string_view> ours{"EXECD", "EXECD_INIT", kExecdTokenVariable, api::kIdVariable,
                                        api::kHooksVariable};
  for (const auto& [name, value] : spec.create->env) {
    if (!ours.contains(name)) add(name, value);
  }
  add("EXECD", "/opt/opensandbox/execd");
  add(api::kIdVariable, spec.id);
  add(kExecdTokenVariable, spec.execd_token);
  if (options.execd_run_as_init) add("EXECD_INIT", "1");
  if (const auto hooks = api::encode_hooks(spec.create->lifecycle); !hooks.empty()) add(api::kHooksVariable, hooks);
  return out;
}

json::object security_context() {
  json::array dropped;
  for (const std::string_view name : kDropped) dropped.push_back(json::value(name));
  return {{"allowPrivilegeEscalation", false},
          {"capabilities", {{"drop", std::move(dropped)}}},
          {"seccompProfile", {{"type", "RuntimeDefault"}}}};
}

json::object installer(const KubernetesOptions& options) {
  json::object out{{"name", "execd-installer"},
                   {"image", options.execd_image},
                   {"imagePullPolicy", options.image_pull_policy},
                   {"command", {"/execd", "--install", kBinPath}},
                   {"volumeMounts", json::array{json::object{{"name", kBinVolume}, {"mountPath", kBinPath}}}},
                   {"securityContext", {{"allowPrivilegeEscalation", false}, {"capabilities", {{"drop", {"ALL"}}}}}}};
  json::object resources;
  if (!options.execd_init_limits.empty()) resources["limits"] = resources_of(options.execd_init_limits);
  if (!options.execd_init_requests.empty()) resources["requests"] = resources_of(options.execd_init_requests);
  if (!resources.empty()) out["resources"] = std::move(resources);
  return out;
}

// The container of the operator's template whose mounts and security context the sandbox gets.
const json::object* template_container(const json::object& workload) {
  const json::value* containers = find(workload, {"spec", "template", "spec", "containers"});
  if (containers == nullptr || !containers->is_array()) return nullptr;
  const json::object* first = nullptr;
  for (const json::value& each : containers->get_array()) {
    if (!each.is_object()) continue;
    if (kubernetes::text(each.get_object(), {"name"}) == kSandboxContainer) return &each.get_object();
    if (first == nullptr) first = &each.get_object();
  }
  return first;
}

// Elements of `more` whose name is new.
void append_named(json::array& list, const json::value* more) {
  if (more == nullptr || !more->is_array()) return;
  for (const json::value& each : more->get_array()) {
    if (!each.is_object()) continue;
    const std::string_view name = kubernetes::text(each.get_object(), {"name"});
    const bool known = std::ranges::any_of(
        list, [&](const json::value& present) { return kubernetes::text(present.get_object(), {"name"}) == name; });
    if (!known) list.push_back(each);
  }
}

json::object container(const SandboxSpec& spec, const KubernetesOptions& options, json::array mounts) {
  const api::CreateSandbox& create = *spec.create;
  json::array command{kBootstrapPath};
  for (const std::string& word : api::entrypoint_words(create.entrypoint).value_or(create.entrypoint)) {
    command.push_back(json::value(literal(word)));
  }
  json::object resources;
  if (create.resource_limits && !create.resource_limits->empty()) {
    resources["limits"] = resources_of(*create.resource_limits);
    resources["requests"] = resources_of(create.resource_requests.value_or(*create.resource_limits));
  } else if (create.resource_requests && !create.resource_requests->empty()) {
    resources["requests"] = resources_of(*create.resource_requests);
  }
  mounts.insert(mounts.begin(), json::object{{"name", kBinVolume}, {"mountPath", kBinPath}});
  json::value security = security_context();
  if (const json::object* base = template_container(options.workload)) {
    if (const json::value* wanted = find(*base, {"securityContext"})) kubernetes::merge_patch(security, *wanted);
    append_named(mounts, find(*base, {"volumeMounts"}));
  }
  return {{"name", kSandboxContainer},
          {"image", create.image ? create.image->uri : ""},
          {"imagePullPolicy", options.image_pull_policy},
          {"command", std::move(command)},
          {"env", environment(spec, options)},
          {"resources", std::move(resources)},
          {"volumeMounts", std::move(mounts)},
          {"securityContext", std::move(security)}};
}

json::object pod_spec(const SandboxSpec& spec, const KubernetesOptions& options) {
  const api::CreateSandbox& create = *spec.create;
  Mounts mounts = mounts_of(create);
  mounts.volumes.insert(mounts.volumes.begin(), json::object{{"name", kBinVolume}, {"emptyDir", json::object()}});
  append_named(mounts.volumes, find(options.workload, {"spec", "template", "spec", "volumes"}));
  json::object out{{"initContainers", json::array{installer(options)}},
                   {"containers", json::array{container(spec, options, std::move(mounts.mounts))}},
                   {"volumes", std::move(mounts.volumes)}};
  if (create.platform) {
    out["nodeSelector"] = {{kOsLabel, create.platform->os}, {kArchLabel, create.platform->arch}};
  }
  if (!options.runtime_class.empty()) out["runtimeClassName"] = options.runtime_class;
  if (create.image && create.image->auth) {
    out["imagePullSecrets"] = json::array{json::object{{"name", pull_secret_name(spec.id)}}};
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
  if (spec.create->secure_access) out.annotations[kSecureToken] = spec.execd_token;
  return out;
}

// Only where the operator's template does not say it.
void set_default(json::object& object, std::string_view key, json::value value) {
  if (!object.contains(key)) object[key] = std::move(value);
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
    const std::string_view fixed =
        kubernetes::text(options.workload, {"spec", "template", "spec", "nodeSelector", key});
    if (!fixed.empty() && fixed != wanted) {
      return api::invalid_parameter("/platform",
                                    "the server's template allows only " + std::string(key) + "=" + std::string(fixed));
    }
  }
  return {};
}

Result<json::object> batch_sandbox(const SandboxSpec& spec, const KubernetesOptions& options) {
  if (!spec.create->image) return fail(Code::Unsupported, "a sandbox in a cluster needs an image");
  const Marks marks = marks_of(spec);
  json::object metadata{{"name", spec.id}, {"namespace", options.ns}, {"labels", marks.labels}};
  if (!marks.annotations.empty()) metadata["annotations"] = marks.annotations;
  json::object workload{{"replicas", 1},
                        {"template",
                         {{"metadata", {{"labels", marks.labels}, {"annotations", marks.annotations}}},
                          {"spec", pod_spec(spec, options)}}}};
  if (const auto deadline = spec.labels.find(std::string(label::kExpiresAt)); deadline != spec.labels.end()) {
    workload["expireTime"] = deadline->second;
  }
  json::value out = options.workload;
  make_object(out.get_object(), {"spec"}).erase("expireTime");
  kubernetes::merge_patch(out, json::object{{"apiVersion", kBatchSandboxes.api_version()},
                                            {"kind", kBatchSandboxes.kind},
                                            {"metadata", std::move(metadata)},
                                            {"spec", std::move(workload)}});
  json::object& pod = make_object(out.get_object(), {"spec", "template", "spec"});
  set_default(pod, "restartPolicy", "Never");
  set_default(pod, "automountServiceAccountToken", false);
  set_default(pod, "enableServiceLinks", false);
  return std::move(out.get_object());
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
