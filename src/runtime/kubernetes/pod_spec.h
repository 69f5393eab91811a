#pragma once

#include <string>
#include <string_view>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "runtime/kubernetes/kubernetes_options.h"
#include "runtime/lifecycle.h"

namespace osb::runtime {

inline constexpr std::string_view kSandboxContainer = "sandbox";
inline constexpr std::string_view kExecdPath = "/opt/opensandbox/execd";
inline constexpr std::string_view kBootstrapPath = "/opt/opensandbox/bootstrap.sh";
inline constexpr std::string_view kWaitForPolicy = "--wait-for-policy";
inline constexpr std::string_view kExecdTokenVariable = "EXECD_ACCESS_TOKEN";
// Volumes that the server adds to every pod.
inline constexpr std::string_view kBinVolume = "opensandbox-bin", kEgressVolume = "opensandbox-egress";
// Labels of nodes.
inline constexpr std::string_view kOsLabel = "kubernetes.io/os", kArchLabel = "kubernetes.io/arch";

// The pod template inside the operator's workload; null: none.
const boost::json::value* operators_pod(const KubernetesOptions& options, std::initializer_list<std::string_view> path);

// The pod of a sandbox: execd's installer, the sandbox itself and, with a network policy, the egress sidecar. `image`
// is the sandbox's. Volumes, mounts and security context of the operator's template are taken over.
boost::json::object pod_spec(const SandboxSpec& spec, const KubernetesOptions& options, const std::string& image);

// The variables that execd and the entrypoint need, as EnvVar objects. `escaped`: for a container, where the kubelet
// would replace $(NAME).
boost::json::array pod_environment(const SandboxSpec& spec, const KubernetesOptions& options, bool escaped);

}  // namespace osb::runtime
