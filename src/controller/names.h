#pragma once

#include <string_view>

#include "kubernetes/resource.h"

// Names that other programs depend on: kinds, annotations, labels, finalizers, reasons.
namespace osb::controller {

inline constexpr std::string_view kGroup = "sandbox.opensandbox.io";
inline const kubernetes::Resource kBatchSandboxes{"sandbox.opensandbox.io", "v1alpha1", "batchsandboxes",
                                                  "BatchSandbox", true};
inline const kubernetes::Resource kPools{"sandbox.opensandbox.io", "v1alpha1", "pools", "Pool", true};
inline const kubernetes::Resource kSnapshots{"sandbox.opensandbox.io", "v1alpha1", "sandboxsnapshots",
                                             "SandboxSnapshot", true};

namespace keys {
// Annotations of a BatchSandbox.
inline constexpr std::string_view kEndpoints = "sandbox.opensandbox.io/endpoints";
inline constexpr std::string_view kAllocated = "sandbox.opensandbox.io/alloc-status";
inline constexpr std::string_view kRelease = "sandbox.opensandbox.io/alloc-release";
inline constexpr std::string_view kReleased = "sandbox.opensandbox.io/alloc-released";
// Labels of replica pods.
inline constexpr std::string_view kReplicaIndex = "batch-sandbox.sandbox.opensandbox.io/pod-index";
inline constexpr std::string_view kReplicaOf = "batch-sandbox.sandbox.opensandbox.io/name";
// Labels of pool pods.
inline constexpr std::string_view kPoolName = "sandbox.opensandbox.io/pool-name";
inline constexpr std::string_view kPoolRevision = "sandbox.opensandbox.io/pool-revision";
inline constexpr std::string_view kEvict = "pool.opensandbox.io/evict";
// Annotation of a pool pod that was given away: the sandbox's UID. It is written before the sandbox's own record, and
// only over the version of the pod that was seen, so that two writers cannot give one pod away twice.
inline constexpr std::string_view kClaim = "sandbox.opensandbox.io/claimed-by";
// Restart recycling.
inline constexpr std::string_view kRestartConfig = "sandbox.opensandbox.io/restart-config";
inline constexpr std::string_view kRestartRecord = "sandbox.opensandbox.io/restart-record";
// Labels of jobs.
inline constexpr std::string_view kSnapshotName = "sandbox.opensandbox.io/sandbox-snapshot-name";
inline constexpr std::string_view kNodeAccess = "sandbox.opensandbox.io/privileged-node-access";
}  // namespace keys

namespace finalizers {
inline constexpr std::string_view kTasks = "batch-sandbox.sandbox.opensandbox.io/task-cleanup";
inline constexpr std::string_view kAllocation = "pool.sandbox.opensandbox.io/pool-allocation";
inline constexpr std::string_view kSnapshot = "sandboxsnapshot.sandbox.opensandbox.io/cleanup";
}  // namespace finalizers

inline constexpr std::string_view kAnyPool = "*";

}  // namespace osb::controller
