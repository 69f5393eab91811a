#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "api/native.h"
#include "base/error.h"
#include "base/ports.h"
#include "image/manifest.h"
#include "kernel/limited_cgroup.h"
#include "sandboxd/launch/launch_plan.h"
#include "sandboxd/sandbox/image_user.h"
#include "sandboxd/volume/volume_spec.h"

namespace osb::sandboxd {

// From what was asked for to what the kernel is told: pure functions, no system state but the devices of the host.

// Numbers of execd's inherited descriptors.
inline constexpr int kListenFd = 3;
inline constexpr int kExitDirectoryFd = 4;
inline constexpr int kLogFd = 5;
inline constexpr int kFirstCgroupFd = 6;

// The command line of PID 1: execd, and behind it the user's entrypoint (the image's if the request names none).
// `cgroup_files` are names of files that it inherits from kFirstCgroupFd on.
std::vector<std::string> execd_arguments(const api::native::CreateSandbox& spec, const image::ImageConfig& image,
                                         std::span<const std::string> cgroup_files = {});
// The same where descriptors are not inherited (oci/): everything has a path inside, and execd listens on its port
// only. The files of `cgroup` that tell what it uses are seen in kOciCgroupDirectory.
std::vector<std::string> oci_execd_arguments(const api::native::CreateSandbox& spec, const image::ImageConfig& image,
                                             const CgroupPlan& cgroup = {});
// The image's variables, then the request's; PATH, HOME and the token are always there.
std::vector<std::string> execd_environment(const api::native::CreateSandbox& spec, const image::ImageConfig& image,
                                           const ImageUser& user, const std::string& token);

std::string hostname_of(const api::native::CreateSandbox& spec);
std::string hosts_file(const std::string& hostname, const std::string& address);
// The servers asked for and no others; without any the host's (network/dns.h). Code::InvalidRequest for what is no IPv4
// address: sandboxes have no IPv6, and the text goes into a file.
Result<std::string> resolv_conf_of(const api::native::CreateSandbox& spec, const std::vector<std::string>& configured);

// Code::InvalidRequest for a name the kernel does not have.
Result<std::vector<Ulimit>> ulimits_of(const api::native::CreateSandbox& spec);
std::vector<VolumeSpec> volumes_of(const api::native::CreateSandbox& spec);
// Code::Unsupported where the host has no such device. `dev` is the host's /dev.
Result<std::vector<DeviceNode>> gpu_devices(const std::string& gpus, const std::string& dev = "/dev");

}  // namespace osb::sandboxd
