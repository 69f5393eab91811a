#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "api/native.h"
#include "base/error.h"
#include "base/ports.h"
#include "kernel/limited_cgroup.h"
#include "sandboxd/image/image_service.h"
#include "sandboxd/launch/launch_plan.h"
#include "sandboxd/network/slot_pool.h"
#include "sandboxd/sandbox/image_user.h"
#include "sandboxd/sandbox/sandbox_config.h"

namespace osb::sandboxd {

// Numbers of execd's inherited descriptors.
inline constexpr int kListenFd = 3;
inline constexpr int kExitDirectoryFd = 4;
inline constexpr int kLogFd = 5;
inline constexpr int kFirstCgroupFd = 6;

// The socket for isolated sessions, in the sandbox's run directory.
inline constexpr const char* kSessionSocket = "session.sock";

// Everything that a request, its image and the configuration decide about a sandbox: a plain value. A create takes and
// starts what stands here, and decides nothing more.
struct SandboxPlan {
  std::string id;
  std::string runtime;                          // an OCI runtime; empty: our own launch
  NetworkMode slot_mode = NetworkMode::Bridge;  // None for a sandbox in the host's network too
  bool host_network = false;

  std::vector<std::string> layers;  // top first
  bool host_image = false;
  bool takes_ready_root = false;  // nothing in the request contradicts a ReadyRoot
  bool read_only_root = false;
  kernel::Limits limits;
  Bandwidth bandwidth;
  std::uint64_t disk_bytes = 0;  // 0: no limit
  sys::DiskReserve::Kept disk_reserve;
  std::uint64_t shm_bytes = 0;
  std::vector<api::native::Volume> volumes;
  std::vector<api::native::PublishedPort> ports;
  std::vector<DeviceNode> devices;

  std::string hostname;
  std::string resolv_conf;
  ImageUser user;
  bool no_new_privileges = true;
  bool nested_user_namespaces = false;
  bool isolated_sessions = false;
  std::string exec_label;
  std::shared_ptr<const std::vector<sock_filter>> class_seccomp;  // of the sandbox's class; null: none
  bool core_scheduling = false;
  std::vector<Ulimit> ulimits;
  std::vector<std::string> entrypoint;  // empty: execd alone
  std::vector<std::string> env;         // with execd's token
  std::string cwd;

  bool operator==(const SandboxPlan&) const = default;
};

// Facts of the host and of the image's files about a request. plan_sandbox() returns the errors of facts that it needs.
struct HostFacts {
  Result<std::vector<std::string>> layers = std::vector<std::string>();  // top first
  Result<std::string> resolv_conf = std::string();                       // for requests that name no DNS server
  Result<std::vector<DeviceNode>> gpus = std::vector<DeviceNode>();
  Result<dev_t> io_device = dev_t{0};
  sys::DiskReserve::Kept disk_reserve = {};
  Result<ImageUser> user = ImageUser();
  std::shared_ptr<const std::vector<sock_filter>> class_seccomp = {};
  Result<std::string> authority = std::string();  // for sandboxes with a credential proxy: what they have to trust
};

// Pure. The request's runtime is resolved (empty or an OCI runtime's name). Code::InvalidRequest names the field;
// Code::Forbidden: the host's network is not allowed; Code::Unsupported: the runtime cannot do it.
Result<SandboxPlan> plan_sandbox(const api::native::CreateSandbox& spec, const std::string& execd_token,
                                 const ResolvedImage& image, HostFacts facts, const SandboxConfig& config);

// Of a request and its defaults. Code::InvalidRequest names the field.
Result<Bandwidth> bandwidth_of(const api::native::CreateSandbox& spec, const SandboxConfig& config);

// The mode of the slot that a sandbox of this network takes.
NetworkMode slot_mode(api::native::NetworkMode network);

// The launch of a plan in a slot. The caller adds stage, mounts, cgroup, program, arguments and descriptors.
Result<LaunchPlan> launch_plan(const SandboxPlan& plan, const Slot& slot, const std::string& tree);

// The command line of PID 1: execd, and behind it the entrypoint. `cgroup_files` are names of files that it inherits
// from kFirstCgroupFd on.
std::vector<std::string> execd_arguments(const SandboxPlan& plan, std::span<const std::string> cgroup_files = {});
// The same where descriptors are not inherited (oci/): every file has a path inside, and execd listens on its port
// only. The files of `cgroup` that tell its usage are seen in kOciCgroupDirectory.
std::vector<std::string> oci_execd_arguments(const SandboxPlan& plan, const CgroupPlan& cgroup = {});

// Code::Unsupported where the host has no such device. `dev` is the host's /dev.
Result<std::vector<DeviceNode>> gpu_devices(const std::string& gpus, const std::string& dev = "/dev");

}  // namespace osb::sandboxd
