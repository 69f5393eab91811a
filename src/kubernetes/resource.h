#pragma once

#include <string>
#include <string_view>

namespace osb::kubernetes {

// One type of objects, as the paths of the API name it.
struct Resource {
  std::string group;  // empty: the core group
  std::string version = "v1";
  std::string plural;
  std::string kind;
  bool namespaced = true;

  bool operator==(const Resource&) const = default;
  std::string api_version() const { return group.empty() ? version : group + "/" + version; }
  std::string to_string() const { return group.empty() ? plural : plural + "." + group; }

  // "/api/v1/namespaces/ns/pods/name/status". An empty `ns` means all namespaces, an empty `name` the collection.
  std::string path(std::string_view ns = {}, std::string_view name = {}, std::string_view subresource = {}) const;
};

namespace resources {

inline const Resource kPods{"", "v1", "pods", "Pod", true};
inline const Resource kEvents{"", "v1", "events", "Event", true};
inline const Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};
inline const Resource kSecrets{"", "v1", "secrets", "Secret", true};
inline const Resource kClaims{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true};
inline const Resource kNamespaces{"", "v1", "namespaces", "Namespace", false};
inline const Resource kJobs{"batch", "v1", "jobs", "Job", true};
inline const Resource kDeployments{"apps", "v1", "deployments", "Deployment", true};
inline const Resource kLeases{"coordination.k8s.io", "v1", "leases", "Lease", true};
inline const Resource kRuntimeClasses{"node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", false};

}  // namespace resources
}  // namespace osb::kubernetes
