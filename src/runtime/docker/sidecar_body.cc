#include "runtime/docker/sidecar_body.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "api/resource_limits.h"
#include "archive/tar_entry.h"
#include "runtime/egress_variables.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;

constexpr int kProcesses = 256;

json::array environment(const SandboxSpec& spec, const SidecarPlan& plan, const config::EgressSection& egress) {
  json::array out;
  for (const auto& [name, value] : egress_variables(spec, egress, plan.resolvers)) {
    out.push_back(json::value(name + "=" + value));
  }
  return out;
}

}  // namespace

std::string sidecar_id(std::string_view sandbox) { return "egress-" + std::string(sandbox); }

std::string sidecar_archive(const SidecarFiles& files) {
  std::string out;
  for (const auto& [name, text] : {std::pair(kAuthorityFile, std::string_view(files.authority)),
                                   std::pair(kExtraTrustFile, std::string_view(files.extra_trust)),
                                   std::pair(kProxyAuthorizationFile, std::string_view(files.proxy_authorization))}) {
    archive::TarEntry entry;
    entry.path = name;
    entry.mode = 0600;
    entry.size = text.size();
    archive::append_tar_header(out, entry);
    out.append(text).append(archive::tar_padding(text.size()), '\0');
  }
  return out.append(archive::kTarEndBytes, '\0');
}

json::value sidecar_body(const SandboxSpec& spec, const SidecarPlan& plan, const DockerOptions& options) {
  json::object host{{"NetworkMode", "container:" + plan.container},
                    {"CapDrop", json::array{"ALL"}},
                    // SETUID: its sockets have a user of their own, by which the packet filter knows them.
                    {"CapAdd", json::array{"NET_ADMIN", "SETUID"}},
                    {"SecurityOpt", json::array{"no-new-privileges:true"}},
                    {"ReadonlyRootfs", true},
                    {"PidsLimit", kProcesses},
                    {"RestartPolicy", json::object{{"Name", "no"}}}};
  const auto limits = api::read_resource_limits(options.egress.limits);
  if (limits && limits->memory_bytes) host["Memory"] = *limits->memory_bytes;
  if (limits && limits->nano_cpus) host["NanoCpus"] = *limits->nano_cpus;
  if (!plan.cgroup_parent.empty()) host["CgroupParent"] = plan.cgroup_parent;
  json::object body{{"Image", options.egress.image},
                    {"Env", environment(spec, plan, options.egress)},
                    {"Labels", json::object{{label::kSidecarFor, spec.id}}},
                    // It outlives the container's processes and goes with the container.
                    {"Volumes", json::object{{kSidecarState, json::object()}}},
                    {"Tty", false},
                    {"OpenStdin", false}};
  body["HostConfig"] = std::move(host);
  return body;
}

Result<void> check_sidecar_limits(const config::EgressSection& egress) {
  for (const auto& [name, value] : egress.limits) {
    if (name != "cpu" && name != "memory") {
      return fail(Code::InvalidRequest, "[egress] limits: \"" + name + "\" is neither cpu nor memory");
    }
  }
  const auto limits = api::read_resource_limits(egress.limits);
  if (!limits) return fail(Code::InvalidRequest, "[egress] limits: " + limits.error().message);
  return {};
}

}  // namespace osb::runtime
