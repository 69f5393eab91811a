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

// Names that the parts of a sandbox have in the cluster.
inline constexpr std::string_view kSandboxContainer = "sandbox";
inline constexpr std::string_view kExecdTokenVariable = "EXECD_ACCESS_TOKEN";
inline constexpr std::string_view kBootstrapPath = "/opt/opensandbox/bootstrap.sh";
std::string pull_secret_name(std::string_view id);

// The rules that only a cluster has: resources, volumes, platform. Pure.
Result<void> check_for_cluster(const api::CreateSandbox& create, const KubernetesOptions& options);

// The BatchSandbox of one sandbox, merged over the operator's template. All its data are in there: a server without the
// record reads them back (workload.h).
Result<boost::json::object> batch_sandbox(const SandboxSpec& spec, const KubernetesOptions& options);

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
