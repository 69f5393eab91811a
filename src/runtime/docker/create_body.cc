#include "runtime/docker/create_body.h"

#include <algorithm>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "api/egress_environment.h"
#include "api/isolation_extension.h"
#include "api/lifecycle_entrypoint.h"
#include "base/ports.h"
#include "runtime/docker/container.h"
#include "runtime/labels.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;

constexpr std::string_view kInitVariable = "EXECD_INIT";
constexpr std::string_view kReserveVariable = "EXECD_DISK_RESERVE";
constexpr std::string_view kNoSetIdVariable = "EXECD_NO_SET_ID";
constexpr std::string_view kExecd = "/opt/opensandbox/execd";
constexpr std::string_view kBootstrap = "/opt/opensandbox/bootstrap.sh";

json::array to_array(const std::vector<std::string>& list) { return json::array(list.begin(), list.end()); }

// Variables that a request cannot set.
bool is_ours(std::string_view name, const DockerOptions& options) {
  return name == kTokenVariable || name == api::kIdVariable || name == kReserveVariable || name == kNoSetIdVariable ||
         (options.execd_run_as_init && name == kInitVariable);
}

// In a container with a limit of its own execd sees the size and the free space of that limit, not of the disk.
std::string disk_reserve(const ContainerPlan& plan, const config::DockerSection& docker) {
  if (plan.limits.amounts.disk_bytes) return "0,0";
  return std::to_string(docker.reserve_bytes) + "," + std::to_string(docker.reserve_inodes);
}

json::array environment(const SandboxSpec& spec, const ContainerPlan& plan, const DockerOptions& options) {
  json::array out;
  api::StringMap all = api::sandbox_environment(spec.create->env, spec.create->network_policy.has_value());
  all.insert(options.docker.sandbox_env.begin(), options.docker.sandbox_env.end());
  if (!plan.authority.empty()) {
    all[std::string(api::kInterceptVariable)] = "true";
    all[std::string(api::kAuthorityVariable)] = plan.authority;
  } else if (!spec.create->snapshot_id.empty()) {
    // A snapshot's image holds the certificate of its source.
    all[std::string(api::kInterceptVariable)] = all[std::string(api::kAuthorityVariable)] = "";
  }
  for (const auto& [name, value] : all) {
    if (!is_ours(name, options)) out.push_back(json::value(name + "=" + value));
  }
  if (options.execd_run_as_init) out.push_back(json::value(std::string(kInitVariable) + "=1"));
  out.push_back(json::value(std::string(api::kIdVariable) + "=" + spec.id));
  // Set even when empty: a snapshot's image may hold the one of its source.
  out.push_back(json::value(std::string(kTokenVariable) + "=" + spec.execd_token));
  out.push_back(json::value(std::string(kReserveVariable) + "=" + disk_reserve(plan, options.docker)));
  out.push_back(json::value(std::string(kNoSetIdVariable) + "=" + (plan.no_set_id_files ? "1" : "")));
  out.push_back(json::value(std::string(api::kHooksVariable) + "=" + api::encode_hooks(spec.create->lifecycle)));
  return out;
}

json::array security_options(const ContainerPlan& plan, const config::DockerSection& docker, bool isolation) {
  json::array out;
  if (docker.no_new_privileges) out.push_back("no-new-privileges:true");
  if (isolation) {
    out.push_back("apparmor=unconfined");
    out.push_back("seccomp=unconfined");
    return out;
  }
  if (!docker.apparmor_profile.empty()) out.push_back(json::value("apparmor=" + docker.apparmor_profile));
  if (!plan.seccomp.empty()) out.push_back(json::value("seccomp=" + plan.seccomp));
  return out;
}

std::string tcp_port(std::uint16_t port) { return std::to_string(port) + "/tcp"; }

json::object port_bindings(const ContainerPlan& plan, const std::string& address) {
  const auto binding = [&](std::uint16_t port) {
    return json::array{json::object{{"HostIp", address}, {"HostPort", std::to_string(port)}}};
  };
  json::object out{{tcp_port(kExecdPort), binding(plan.execd_port)}};
  if (plan.http_port != 0) out[tcp_port(kHttpPort)] = binding(plan.http_port);
  if (plan.egress_port != 0) out[tcp_port(kEgressPort)] = binding(plan.egress_port);
  return out;
}

// A sidecar joins the container's network after its start (sidecars.h). Until then no program of the image runs: the
// first process is execd.
void put_under_policy(json::object& body, json::object& host, const ContainerPlan& plan) {
  body["Entrypoint"] = json::array{kExecd, "--wait-for-policy", kBootstrap};
  if (!plan.without_ipv6) return;
  json::object sysctls;
  for (const char* name : {"all", "default", "lo"}) {
    sysctls["net.ipv6.conf." + std::string(name) + ".disable_ipv6"] = "1";
  }
  host["Sysctls"] = std::move(sysctls);
}

}  // namespace

api::StringMap container_labels(const SandboxSpec& spec, const ContainerPlan& plan) {
  api::StringMap out;
  // A committed image carries labels of its source; these say what they say also where ours have nothing to say.
  if (!spec.create->snapshot_id.empty()) {
    for (const std::string_view name :
         {label::kExpiresAt, label::kManualCleanup, label::kPlatformOs, label::kPlatformArch, label::kSnapshotId,
          label::kAccessRenew, label::kSecureAccess, label::kIdlePolicy, label::kHooks, label::kExecdHostPort,
          label::kHttpHostPort, label::kManagedVolumes, label::kEgressToken, label::kEgressAddress,
          label::kEgressHostPort, label::kOssfsMounts}) {
      out[std::string(name)] = "";
    }
  }
  json::array metadata;
  for (const auto& [name, value] : spec.labels) {
    out[name] = value;
    if (!name.starts_with(label::kPrefix)) metadata.push_back(json::value(name));
  }
  out[std::string(label::kId)] = spec.id;
  out[std::string(label::kMetadataKeys)] = json::serialize(metadata);
  if (plan.execd_port != 0) {
    out[std::string(label::kExecdHostPort)] = std::to_string(plan.execd_port);
    if (plan.http_port != 0) out[std::string(label::kHttpHostPort)] = std::to_string(plan.http_port);
  }
  if (plan.has_policy) {
    out[std::string(label::kEgressToken)] = spec.egress_token;
    if (plan.egress_port != 0) out[std::string(label::kEgressHostPort)] = std::to_string(plan.egress_port);
  }
  if (!plan.managed_volumes.empty()) {
    out[std::string(label::kManagedVolumes)] = json::serialize(to_array(plan.managed_volumes));
  }
  return out;
}

json::value create_body(const SandboxSpec& spec, const ContainerPlan& plan, const DockerOptions& options) {
  json::object labels;
  for (const auto& [name, value] : container_labels(spec, plan)) labels[name] = value;
  json::array files;
  for (const FileMount& file : plan.files) {
    files.push_back(
        json::object{{"Type", "bind"}, {"Source", file.source}, {"Target", file.target}, {"ReadOnly", true}});
  }
  const bool isolation = api::wants_isolation(spec.create->extensions);
  std::vector<std::string> dropped = options.docker.drop_capabilities;
  const auto drop = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (std::ranges::find(dropped, name) == dropped.end()) dropped.emplace_back(name);
    }
  };
  if (isolation) std::erase_if(dropped, [](const std::string& name) { return name.ends_with("SYS_ADMIN"); });
  // These capabilities change the rules of the sandbox's network, or send packets past them.
  if (plan.has_policy) drop({"NET_ADMIN", "NET_RAW", "SYS_ADMIN"});
  // A write by root with FSETID leaves the setuid bit of a file; SETFCAP gives a file capabilities of the host.
  if (plan.no_set_id_files) drop({"FSETID", "SETFCAP"});
  json::object host{{"NetworkMode", plan.network},  {"Binds", to_array(plan.binds)},
                    {"Mounts", std::move(files)},   {"SecurityOpt", security_options(plan, options.docker, isolation)},
                    {"CapDrop", to_array(dropped)}, {"RestartPolicy", json::object{{"Name", "no"}}}};
  // execd needs it to make namespaces for isolated sessions; their processes do not get it.
  if (isolation) {
    host["CapAdd"] = json::array{"SYS_ADMIN"};
    host["MaskedPaths"] = json::array{};
    host["ReadonlyPaths"] = json::array{};
    host["Tmpfs"] = json::object{{"/var/lib/execd/isolation", ""}};
  }
  add_limits(host, plan.limits);
  if (!options.runtime.empty()) host["Runtime"] = options.runtime;
  const bool publishes = plan.execd_port != 0;
  if (publishes) host["PortBindings"] = port_bindings(plan, options.publish_address);
  json::object body{{"Image", plan.image},
                    {"Entrypoint", json::array{kBootstrap}},
                    {"Cmd", to_array(api::entrypoint_words(spec.create->entrypoint).value_or(spec.create->entrypoint))},
                    {"Env", environment(spec, plan, options)},
                    {"Labels", std::move(labels)},
                    // Engines start the image's health check beside the first process: outside of the walls that execd
                    // raises (bootstrap.sh), and before a policy is enforced.
                    {"Healthcheck", json::object{{"Test", json::array{"NONE"}}}},
                    {"Tty", false},
                    {"OpenStdin", false}};
  if (plan.has_policy) put_under_policy(body, host, plan);
  if (publishes) {
    json::object exposed{{tcp_port(kExecdPort), json::object()}};
    if (plan.http_port != 0) exposed[tcp_port(kHttpPort)] = json::object();
    if (plan.egress_port != 0) exposed[tcp_port(kEgressPort)] = json::object();
    body["ExposedPorts"] = std::move(exposed);
  }
  body["HostConfig"] = std::move(host);
  return body;
}

}  // namespace osb::runtime
