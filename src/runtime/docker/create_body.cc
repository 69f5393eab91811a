#include "runtime/docker/create_body.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "api/lifecycle_entrypoint.h"
#include "base/ports.h"
#include "runtime/docker/container.h"
#include "runtime/labels.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;

constexpr std::string_view kBootstrap = "/opt/opensandbox/bootstrap.sh";

json::array to_array(const std::vector<std::string>& list) { return json::array(list.begin(), list.end()); }

json::array environment(const SandboxSpec& spec) {
  json::array out;
  for (const auto& [name, value] : spec.create->env) {
    if (name != kTokenVariable && name != api::kIdVariable) out.push_back(json::value(name + "=" + value));
  }
  out.push_back(json::value(std::string(api::kIdVariable) + "=" + spec.id));
  // Set even when empty: a snapshot's image may hold the one of its source.
  out.push_back(json::value(std::string(kTokenVariable) + "=" + spec.execd_token));
  return out;
}

json::array security_options(const ContainerPlan& plan, const config::DockerSection& docker) {
  json::array out;
  if (docker.no_new_privileges) out.push_back("no-new-privileges:true");
  if (!docker.apparmor_profile.empty()) out.push_back(json::value("apparmor=" + docker.apparmor_profile));
  if (!plan.seccomp.empty()) out.push_back(json::value("seccomp=" + plan.seccomp));
  return out;
}

std::string tcp_port(std::uint16_t port) { return std::to_string(port) + "/tcp"; }

json::object port_bindings(const ContainerPlan& plan, const std::string& address) {
  const auto binding = [&](std::uint16_t port) {
    return json::array{json::object{{"HostIp", address}, {"HostPort", std::to_string(port)}}};
  };
  return {{tcp_port(kExecdPort), binding(plan.execd_port)}, {tcp_port(kHttpPort), binding(plan.http_port)}};
}

}  // namespace

api::StringMap container_labels(const SandboxSpec& spec, const ContainerPlan& plan) {
  api::StringMap out;
  // A committed image carries labels of its source; these say what they say also where ours have nothing to say.
  if (!spec.create->snapshot_id.empty()) {
    for (const std::string_view name :
         {label::kExpiresAt, label::kManualCleanup, label::kPlatformOs, label::kPlatformArch, label::kSnapshotId,
          label::kAccessRenew, label::kExecdHostPort, label::kHttpHostPort, label::kManagedVolumes, label::kEgressToken,
          label::kOssfsMounts}) {
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
    out[std::string(label::kHttpHostPort)] = std::to_string(plan.http_port);
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
  json::object host{{"NetworkMode", plan.network},
                    {"Binds", to_array(plan.binds)},
                    {"Mounts", std::move(files)},
                    {"SecurityOpt", security_options(plan, options.docker)},
                    {"CapDrop", to_array(options.docker.drop_capabilities)},
                    {"RestartPolicy", json::object{{"Name", "no"}}}};
  add_limits(host, plan.limits);
  if (!options.runtime.empty()) host["Runtime"] = options.runtime;
  if (plan.execd_port != 0) host["PortBindings"] = port_bindings(plan, options.publish_address);
  json::object body{{"Image", plan.image},
                    {"Entrypoint", json::array{kBootstrap}},
                    {"Cmd", to_array(api::entrypoint_words(spec.create->entrypoint).value_or(spec.create->entrypoint))},
                    {"Env", environment(spec)},
                    {"Labels", std::move(labels)},
                    {"Tty", false},
                    {"OpenStdin", false},
                    {"HostConfig", std::move(host)}};
  if (plan.execd_port != 0) {
    body["ExposedPorts"] = json::object{{tcp_port(kExecdPort), json::object()}, {tcp_port(kHttpPort), json::object()}};
  }
  return body;
}

}  // namespace osb::runtime
