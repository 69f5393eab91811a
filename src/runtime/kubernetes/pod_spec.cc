#include "runtime/kubernetes/pod_spec.h"

#include <algorithm>
#include <set>

#include <boost/json/array.hpp>

#include "api/egress_environment.h"
#include "api/lifecycle_entrypoint.h"
#include "base/ports.h"
#include "kubernetes/object.h"
#include "kubernetes/patch.h"
#include "runtime/egress_variables.h"
#include "runtime/kubernetes/manifest.h"
#include "runtime/labels.h"

namespace osb::runtime {

namespace json = boost::json;
using kubernetes::find;

namespace {

constexpr std::string_view kBinPath = "/opt/opensandbox";
// As on Docker.
constexpr std::string_view kDropped[] = {"AUDIT_WRITE", "MKNOD",      "NET_ADMIN", "NET_RAW",       "SYS_ADMIN",
                                         "SYS_MODULE",  "SYS_PTRACE", "SYS_TIME",  "SYS_TTY_CONFIG"};
// Kubernetes replaces $(NAME) in commands and variables; a doubled dollar is one that stays.
std::string literal(std::string_view text) {
  std::string out;
  for (const char c : text) out.append(c == '$' ? 2 : 1, c);
  return out;
}

json::object resources_of(const api::StringMap& amounts) {
  json::object out;
  for (const auto& [name, amount] : amounts) out[name == "gpu" ? "nvidia.com/gpu" : name] = amount;
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

json::object security_context() {
  json::array dropped;
  for (const std::string_view name : kDropped) dropped.push_back(json::value(name));
  return {{"allowPrivilegeEscalation", false},
          {"capabilities", {{"drop", std::move(dropped)}}},
          {"seccompProfile", {{"type", "RuntimeDefault"}}}};
}

json::object amounts_of(const api::StringMap& limits, const api::StringMap& requests) {
  json::object out;
  if (!limits.empty()) out["limits"] = resources_of(limits);
  if (!requests.empty()) out["requests"] = resources_of(requests);
  return out;
}

json::object installer(const KubernetesOptions& options) {
  json::object out{{"name", "execd-installer"},
                   {"image", options.execd_image},
                   {"imagePullPolicy", options.image_pull_policy},
                   {"command", {"/execd", "--install", kBinPath}},
                   {"volumeMounts", json::array{json::object{{"name", kBinVolume}, {"mountPath", kBinPath}}}},
                   {"securityContext", {{"allowPrivilegeEscalation", false}, {"capabilities", {{"drop", {"ALL"}}}}}}};
  json::object resources = amounts_of(options.execd_init_limits, options.execd_init_requests);
  if (!resources.empty()) out["resources"] = std::move(resources);
  return out;
}

// The container of the operator's template whose mounts and security context the sandbox gets.
const json::object* template_container(const KubernetesOptions& options) {
  const json::value* containers = operators_pod(options, {"spec", "containers"});
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

// The operator's template must not give back what lets a process get round the packet filter.
void keep_from_network(json::value& security) {
  json::object& context = security.get_object();
  context["privileged"] = false;
  json::value* capabilities = context.if_contains("capabilities");
  if (capabilities == nullptr || !capabilities->is_object()) return;
  json::value* added = capabilities->get_object().if_contains("add");
  if (added == nullptr || !added->is_array()) return;
  json::array kept;
  for (const json::value& name : added->get_array()) {
    const bool harmful = name == "NET_ADMIN" || name == "NET_RAW" || name == "SYS_ADMIN" || name == "ALL";
    if (!harmful) kept.push_back(name);
  }
  *added = std::move(kept);
}

// Filters the packets of the pod, whose network all its containers share. The kernel keeps the rules while it is away.
json::object sidecar(const SandboxSpec& spec, const KubernetesOptions& options) {
  json::array env;
  for (const auto& [name, value] : egress_variables(spec, options.egress, options.egress.dns_upstream)) {
    env.push_back(json::object{{"name", name}, {"value", literal(value)}});
  }
  const json::object header{{"name", api::kEgressTokenHeader}, {"value", spec.egress_token}};
  json::object out{{"name", "egress"},
                   {"image", options.egress.image},
                   {"imagePullPolicy", options.image_pull_policy},
                   {"env", std::move(env)},
                   {"ports", json::array{json::object{{"name", "egress-api"}, {"containerPort", kEgressPort}}}},
                   {"readinessProbe",
                    {{"httpGet", {{"path", "/healthz"}, {"port", kEgressPort}, {"httpHeaders", json::array{header}}}},
                     {"periodSeconds", 1},
                     {"failureThreshold", 30}}},
                   {"volumeMounts", json::array{json::object{{"name", kEgressVolume}, {"mountPath", kSidecarState}}}},
                   // SETUID: its sockets have a user of their own, by which the packet filter knows them.
                   {"securityContext",
                    {{"allowPrivilegeEscalation", false},
                     {"readOnlyRootFilesystem", true},
                     {"capabilities", {{"drop", {"ALL"}}, {"add", {"NET_ADMIN", "SETUID"}}}},
                     {"seccompProfile", {{"type", "RuntimeDefault"}}}}}};
  if (json::object resources = amounts_of(options.egress.limits, options.egress.requests); !resources.empty()) {
    out["resources"] = std::move(resources);
  }
  return out;
}

json::object container(const SandboxSpec& spec, const KubernetesOptions& options, const std::string& image,
                       json::array mounts) {
  const api::CreateSandbox& create = *spec.create;
  json::array command;
  // No program of the image runs before the sidecar enforces the policy.
  if (create.network_policy) command = {kExecdPath, kWaitForPolicy};
  command.push_back(json::value(kBootstrapPath));
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
  if (const json::object* base = template_container(options)) {
    if (const json::value* wanted = find(*base, {"securityContext"})) kubernetes::merge_patch(security, *wanted);
    if (create.network_policy) keep_from_network(security);
    append_named(mounts, find(*base, {"volumeMounts"}));
  }
  return {{"name", kSandboxContainer},
          {"image", image},
          {"imagePullPolicy", options.image_pull_policy},
          {"command", std::move(command)},
          {"env", pod_environment(spec, options, true)},
          {"resources", std::move(resources)},
          {"volumeMounts", std::move(mounts)},
          {"securityContext", std::move(security)}};
}

}  // namespace

const json::value* operators_pod(const KubernetesOptions& options, std::initializer_list<std::string_view> path) {
  const std::string_view field = options.provider == WorkloadProvider::AgentSandbox ? "podTemplate" : "template";
  const json::value* pod = find(options.workload, {"spec", field});
  return pod == nullptr || !pod->is_object() ? nullptr : find(pod->get_object(), path);
}

json::array pod_environment(const SandboxSpec& spec, const KubernetesOptions& options, bool escaped) {
  json::array out;
  const auto add = [&](std::string_view name, std::string_view value) {
    out.push_back(json::object{{"name", name}, {"value", escaped ? literal(value) : std::string(value)}});
  };
  const std::set<std::string_view> ours{"EXECD", "EXECD_INIT", kExecdTokenVariable, api::kIdVariable,
                                        api::kHooksVariable};
  for (const auto& [name, value] :
       api::sandbox_environment(spec.create->env, spec.create->network_policy.has_value())) {
    if (!ours.contains(name)) add(name, value);
  }
  add("EXECD", kExecdPath);
  add(api::kIdVariable, spec.id);
  add(kExecdTokenVariable, spec.execd_token);
  if (options.execd_run_as_init) add("EXECD_INIT", "1");
  if (const auto hooks = api::encode_hooks(spec.create->lifecycle); !hooks.empty()) add(api::kHooksVariable, hooks);
  return out;
}

json::object pod_spec(const SandboxSpec& spec, const KubernetesOptions& options, const std::string& image) {
  const api::CreateSandbox& create = *spec.create;
  Mounts mounts = mounts_of(create);
  mounts.volumes.insert(mounts.volumes.begin(), json::object{{"name", kBinVolume}, {"emptyDir", json::object()}});
  append_named(mounts.volumes, operators_pod(options, {"spec", "volumes"}));
  json::array containers{container(spec, options, image, std::move(mounts.mounts))};
  if (create.network_policy) {
    containers.push_back(sidecar(spec, options));
    mounts.volumes.push_back(json::object{{"name", kEgressVolume}, {"emptyDir", json::object()}});
  }
  json::object out{{"initContainers", json::array{installer(options)}},
                   {"containers", std::move(containers)},
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

}  // namespace osb::runtime
