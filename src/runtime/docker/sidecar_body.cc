#include "runtime/docker/sidecar_body.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "api/egress_environment.h"
#include "api/resource_limits.h"
#include "archive/tar_entry.h"
#include "base/ip_address.h"
#include "base/text.h"
#include "runtime/policy_mode.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;

constexpr std::string_view kAuthorityFile = "authority.pem", kExtraTrustFile = "upstream-ca.pem";
constexpr std::size_t kMostResolvers = 3;
constexpr int kProcesses = 256;

// The request's variables first: the server's own win.
json::array environment(const SandboxSpec& spec, const SidecarPlan& plan, const config::EgressSection& egress) {
  api::StringMap all = api::egress_environment(spec.create->env);
  const auto set = [&all](std::string_view name, std::string value) {
    all["OPENSANDBOX_EGRESS_" + std::string(name)] = std::move(value);
  };
  set("RULES", json::serialize(api::to_json(*spec.create->network_policy)));
  set("MODE", egress.mode);
  set("TOKEN", spec.egress_token);
  set("SANDBOX_ID", spec.id);
  // Changes of the policy outlive the process that enforces it. Where the file is, is no business of the request.
  const auto in_state = [](std::string_view name) { return std::string(kSidecarState) + "/" + std::string(name); };
  set("POLICY_FILE", in_state("policy.json"));
  if (is_intercepted(*spec.create)) {
    set("MITMPROXY_TRANSPARENT", "true");
    // Files, because an engine shows variables to everyone who may look at its containers.
    set("CA_FILE", in_state(kAuthorityFile));
    set("MITMPROXY_UPSTREAM_EXTRA_CA", in_state(kExtraTrustFile));
    if (egress.scrub_bodies) set("CREDENTIAL_VAULT_SCRUB_BODIES", "true");
    if (!egress.pins.empty()) set("CREDENTIAL_VAULT_PINS", joined(egress.pins, ","));
  }
  set("DNS_UPSTREAM", joined(plan.resolvers, ","));
  if (is_audited(*spec.create)) set("AUDIT", "true");
  if (!egress.otlp_endpoint.empty()) all["OTEL_EXPORTER_OTLP_ENDPOINT"] = egress.otlp_endpoint;
  json::array out;
  for (const auto& [name, value] : all) out.push_back(json::value(name + "=" + value));
  return out;
}

}  // namespace

std::string sidecar_id(std::string_view sandbox) { return "egress-" + std::string(sandbox); }

std::string sidecar_archive(const SidecarFiles& files) {
  std::string out;
  for (const auto& [name, text] : {std::pair(kAuthorityFile, std::string_view(files.authority)),
                                   std::pair(kExtraTrustFile, std::string_view(files.extra_trust))}) {
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

std::vector<std::string> usable_resolvers(std::string_view text) {
  constexpr std::string_view kKeyword = "nameserver";
  std::vector<std::string> out;
  while (!text.empty() && out.size() < kMostResolvers) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.starts_with(kKeyword)) continue;
    line.remove_prefix(kKeyword.size());
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == 0 || first == std::string_view::npos) continue;
    line = line.substr(first, line.find_first_of(" \t\r#;", first) - first);
    const auto address = parse_ip_address(line);
    if (!address) continue;
    const bool loopback = address->v6 ? address->bytes == parse_ip_address("::1")->bytes : address->bytes[0] == 127;
    if (!loopback) out.emplace_back(line);
  }
  return out;
}

}  // namespace osb::runtime
