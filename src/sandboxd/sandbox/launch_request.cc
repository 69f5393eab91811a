#include "sandboxd/sandbox/launch_request.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <sys/stat.h>

#include "sandboxd/network/dns.h"
#include "sandboxd/network/network_config.h"
#include "sandboxd/oci/bundle.h"
#include "sandboxd/oci/oci_runtime.h"

namespace osb::sandboxd {
namespace {

constexpr const char* kDefaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const std::map<std::string, int, std::less<>> kResources = {
    {"as", RLIMIT_AS},           {"core", RLIMIT_CORE},         {"cpu", RLIMIT_CPU},
    {"data", RLIMIT_DATA},       {"fsize", RLIMIT_FSIZE},       {"locks", RLIMIT_LOCKS},
    {"memlock", RLIMIT_MEMLOCK}, {"msgqueue", RLIMIT_MSGQUEUE}, {"nice", RLIMIT_NICE},
    {"nofile", RLIMIT_NOFILE},   {"nproc", RLIMIT_NPROC},       {"rss", RLIMIT_RSS},
    {"rtprio", RLIMIT_RTPRIO},   {"rttime", RLIMIT_RTTIME},     {"sigpending", RLIMIT_SIGPENDING},
    {"stack", RLIMIT_STACK},
};

void set_variable(std::vector<std::string>& env, const std::string& name, const std::string& value) {
  std::erase_if(env, [&](const std::string& entry) { return entry.starts_with(name + "="); });
  env.push_back(name + "=" + value);
}

bool has_variable(const std::vector<std::string>& env, std::string_view name) {
  return std::ranges::any_of(env, [&](const std::string& entry) {
    return entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
  });
}

void add_entrypoint(std::vector<std::string>& arguments, const api::native::CreateSandbox& spec,
                    const image::ImageConfig& image) {
  std::vector<std::string> entrypoint = spec.entrypoint;
  if (entrypoint.empty()) {
    entrypoint = image.entrypoint;
    entrypoint.insert(entrypoint.end(), image.cmd.begin(), image.cmd.end());
  }
  if (entrypoint.empty()) return;
  arguments.emplace_back("--");
  arguments.insert(arguments.end(), entrypoint.begin(), entrypoint.end());
}

}  // namespace

std::vector<std::string> execd_arguments(const api::native::CreateSandbox& spec, const image::ImageConfig& image,
                                         std::span<const std::string> cgroup_files) {
  const auto inherited = [](int fd) { return "/proc/self/fd/" + std::to_string(fd); };
  std::vector<std::string> out = {"execd",
                                  "--listen-fd",
                                  std::to_string(kListenFd),
                                  "--exit-dir",
                                  inherited(kExitDirectoryFd),
                                  "--entrypoint-log",
                                  inherited(kLogFd),
                                  "--entrypoint-log-times",
                                  "lines",
                                  "--after-entrypoint",
                                  "end"};
  int fd = kFirstCgroupFd;
  for (const std::string& name : cgroup_files) out.insert(out.end(), {"--cgroup-file", name + "=" + inherited(fd++)});
  // In the host's network the port would be everybody's; the socket is enough.
  if (spec.network != api::native::NetworkMode::Host) out.insert(out.end(), {"--port", std::to_string(kExecdPort)});
  add_entrypoint(out, spec, image);
  return out;
}

std::vector<std::string> oci_execd_arguments(const api::native::CreateSandbox& spec, const image::ImageConfig& image,
                                             const CgroupPlan& cgroup) {
  std::vector<std::string> out = {kOciExecd,
                                  "--exit-dir",
                                  kOciExitDirectory,
                                  "--entrypoint-log",
                                  kOciEntrypointLog,
                                  "--entrypoint-log-times",
                                  "lines",
                                  "--after-entrypoint",
                                  "end",
                                  "--port",
                                  std::to_string(kExecdPort)};
  for (const auto& [name, mount] : cgroup.stat_files) {
    out.insert(out.end(), {"--cgroup-file", name + "=" + kOciCgroupDirectory + "/" + name});
  }
  add_entrypoint(out, spec, image);
  return out;
}

std::vector<std::string> execd_environment(const api::native::CreateSandbox& spec, const image::ImageConfig& image,
                                           const ImageUser& user, const std::string& token) {
  std::vector<std::string> env = image.env;
  if (!has_variable(env, "PATH")) env.emplace_back(kDefaultPath);
  if (!has_variable(env, "HOME")) env.push_back("HOME=" + user.home);
  for (const auto& [name, value] : spec.env) set_variable(env, name, value);
  set_variable(env, "EXECD_ACCESS_TOKEN", token);
  return env;
}

std::string hostname_of(const api::native::CreateSandbox& spec) {
  return spec.hostname.empty() ? spec.id.substr(0, 12) : spec.hostname;
}

std::string hosts_file(const std::string& hostname, const std::string& address) {
  return "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
         (address.empty() ? "127.0.0.1" : address) + "\t" + hostname + "\n";
}

Result<std::string> resolv_conf_of(const api::native::CreateSandbox& spec, const std::vector<std::string>& configured) {
  if (spec.dns.empty()) return sandbox_resolv_conf(configured);
  std::string text;
  for (const std::string& server : spec.dns) {
    if (!parse_ipv4(server)) return fail(Code::InvalidRequest, "/dns: '" + server + "' is not an IPv4 address");
    text += "nameserver " + server + "\n";
  }
  return text;
}

Result<std::vector<Ulimit>> ulimits_of(const api::native::CreateSandbox& spec) {
  std::vector<Ulimit> out;
  for (const auto& [name, value] : spec.ulimits) {
    const auto resource = kResources.find(name);
    if (resource == kResources.end()) {
      return fail(Code::InvalidRequest, "/ulimits/" + name + ": no such limit (use nofile, nproc, core, stack ..)");
    }
    out.push_back({resource->second, {value, value}});
  }
  return out;
}

std::vector<VolumeSpec> volumes_of(const api::native::CreateSandbox& spec) {
  std::vector<VolumeSpec> out;
  for (const api::native::Volume& volume : spec.volumes) {
    VolumeSpec each;
    each.kind = volume.kind == api::native::VolumeKind::Host    ? VolumeSpec::Kind::Host
                : volume.kind == api::native::VolumeKind::Named ? VolumeSpec::Kind::Named
                                                                : VolumeSpec::Kind::Tmpfs;
    each.source = volume.source;
    each.sub_path = volume.sub_path;
    each.target = volume.target;
    each.read_only = volume.read_only;
    each.size_bytes = volume.size_bytes.value_or(0);
    each.create_if_missing = volume.create;
    each.delete_with_sandbox = volume.delete_with_sandbox;
    out.push_back(std::move(each));
  }
  return out;
}

Result<std::vector<DeviceNode>> gpu_devices(const std::string& gpus, const std::string& dev) {
  if (gpus.empty()) return std::vector<DeviceNode>{};
  unsigned wanted = 0;
  const auto [end, error] = std::from_chars(gpus.data(), gpus.data() + gpus.size(), wanted);
  const bool all = gpus == "all";
  if (!all && (error != std::errc() || end != gpus.data() + gpus.size() || wanted == 0)) {
    return fail(Code::InvalidRequest, "/gpus: expected a positive number or \"all\", not '" + gpus + "'");
  }
  std::vector<DeviceNode> cards, shared;
  const auto add = [&](std::vector<DeviceNode>& to, const std::string& name) {
    struct stat info{};
    if (::stat((dev + "/" + name).c_str(), &info) == 0 && S_ISCHR(info.st_mode)) {
      to.push_back({name, S_IFCHR | 0666, info.st_rdev});
    }
  };
  for (int i = 0; i < 64; ++i) add(cards, "nvidia" + std::to_string(i));
  const bool nvidia = !cards.empty();
  for (int i = 128; !nvidia && i < 192; ++i) add(cards, "dri/renderD" + std::to_string(i));
  for (const char* name : {"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "kfd"}) add(shared, name);
  if (cards.empty()) return fail(Code::Unsupported, "gpus: this host has none (no /dev/nvidia* or /dev/dri/renderD*)");
  if (!all && wanted > cards.size()) {
    return fail(Code::Unsupported, "gpus: " + gpus + " wanted, this host has " + std::to_string(cards.size()));
  }
  if (!all) cards.resize(wanted);
  cards.insert(cards.end(), shared.begin(), shared.end());
  return cards;
}

}  // namespace osb::sandboxd
