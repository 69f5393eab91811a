#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>

#include "base/error.h"
#include "kubernetes/resource.h"
#include "runtime/kubernetes/kubernetes_options.h"
#include "runtime/lifecycle.h"

namespace osb::runtime {

inline const kubernetes::Resource kBatchSandboxes{"sandbox.opensandbox.io", "v1alpha1", "batchsandboxes",
                                                  "BatchSandbox", true};
inline const kubernetes::Resource kPools{"sandbox.opensandbox.io", "v1alpha1", "pools", "Pool", true};
inline const kubernetes::Resource kSandboxSnapshots{"sandbox.opensandbox.io", "v1alpha1", "sandboxsnapshots",
                                                    "SandboxSnapshot", true};
inline const kubernetes::Resource kAgentSandboxes{"agents.x-k8s.io", "v1beta1", "sandboxes", "Sandbox", true};

inline const kubernetes::Resource& workload_resource(const KubernetesOptions& options) {
  return options.provider == WorkloadProvider::AgentSandbox ? kAgentSandboxes : kBatchSandboxes;
}

// Annotations with secrets of a sandbox.
inline constexpr std::string_view kAccessTokenAnnotation = "opensandbox.io/secure-access-token";
inline constexpr std::string_view kEgressTokenAnnotation = "opensandbox.io/egress-auth-token";

std::string pull_secret_name(std::string_view id);

// The rules that only a cluster has: resources, volumes, platform. Pure.
Result<void> check_for_cluster(const api::CreateSandbox& create, const KubernetesOptions& options);

// The object of one sandbox, merged over the operator's template. All its data are in there: a server without the
// record reads them back (workload.h). `image` is the user's, or that of the snapshot.
boost::json::object batch_sandbox(const SandboxSpec& spec, const KubernetesOptions& options, const std::string& image);
// The same for a sandbox whose pod comes from a pool: the operator's template has no part in it. The pod's
// task-executor starts execd and the entrypoint.
boost::json::object pooled_sandbox(const SandboxSpec& spec, const KubernetesOptions& options);
// The same as a Sandbox of the agent-sandbox project.
boost::json::object agent_sandbox(const SandboxSpec& spec, const KubernetesOptions& options, const std::string& image);
// Its name, which must begin with a letter and have at most 63 characters.
std::string agent_sandbox_name(std::string_view id);

// The login for the image, as a Secret; nothing without one.
std::optional<boost::json::object> pull_secret(const SandboxSpec& spec);

// The claims that may have to be made before the sandbox. A claim that goes with its sandbox has no owner yet.
struct Claim {
  boost::json::object object;
  bool create = true;  // else it must be there
  bool owned = false;  // goes with the sandbox, if this create made it
};
std::vector<Claim> claims(const api::CreateSandbox& create, const KubernetesOptions& options);

}  // namespace osb::runtime
