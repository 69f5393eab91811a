#include "sandboxd/sandbox/sandbox_plan.h"

#include <algorithm>
#include <map>
#include <sys/stat.h>

#include <fmt/format.h>

#include "api/egress_environment.h"
#include "base/parse_number.h"
#include "sandboxd/launch/seccomp_profile.h"
#include "sandboxd/network/network_config.h"
#include "sandboxd/oci/bundle.h"
#include "sandboxd/oci/oci_runtime.h"
#include "sandboxd/volume/check_volumes.h"

namespace osb::sandboxd {
namespace {

constexpr rlim_t kSoftFiles = 65536, kHardFiles = 524288;
// Sandboxes are killed before the host's own programs when the host runs out of memory. Nothing inside can lower it.
constexpr int kOomScore = 500;
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

// The image's variables, then the request's; PATH, HOME and the token are always there.
std::vector<std::string> environment(const api::native::CreateSandbox& spec, const image::ImageConfig& image,
                                     const ImageUser& user, const std::string& token) {
  std::vector<std::string> env = image.env;
  if (!has_variable(env, "PATH")) env.emplace_back(kDefaultPath);
  if (!has_variable(env, "HOME")) env.push_back("HOME=" + user.home);
  // Clients add variables for all commands to this file, which need not exist. bootstrap.sh says the same on Docker.
  if (!has_variable(env, "EXECD_ENVS")) env.emplace_back("EXECD_ENVS=/opt/opensandbox/.env");
  for (const auto& [name, value] : spec.env) set_variable(env, name, value);
  set_variable(env, "EXECD_ACCESS_TOKEN", token);
  return env;
}

std::string hosts_file(const std::string& hostname, const std::string& address) {
  return "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
         (address.empty() ? "127.0.0.1" : address) + "\t" + hostname + "\n";
}

// Only IPv4 addresses: sandboxes have no IPv6, and the text goes into a file.
Result<std::string> resolv_conf_of(const std::vector<std::string>& servers) {
  std::string text;
  for (const std::string& server : servers) {
    if (!parse_ipv4(server)) return fail(Code::InvalidRequest, "/dns: '" + server + "' is not an IPv4 address");
    text += "nameserver " + server + "\n";
  }
  return text;
}

// Open files of a process: enough for servers without setting anything, and systemd's number for what a program may
// raise it to. A sandboxd without CAP_SYS_RESOURCE cannot give more than it has.
rlimit default_files() {
  static const rlim_t own = [] {
    rlimit now{};
    ::getrlimit(RLIMIT_NOFILE, &now);
    return now.rlim_max;
  }();
  return {std::min(kSoftFiles, own), std::min(kHardFiles, own)};
}

// A core limit of 1 keeps the host's core_pattern away too (launch/seccomp_profile.cc).
std::vector<Ulimit> default_ulimits() { return {{RLIMIT_CORE, {1, 1}}, {RLIMIT_NOFILE, default_files()}}; }

Result<std::vector<Ulimit>> ulimits_of(const std::map<std::string, std::uint64_t>& wanted) {
  std::vector<Ulimit> out = default_ulimits();
  for (const auto& [name, value] : wanted) {
    const auto resource = kResources.find(name);
    if (resource == kResources.end()) {
      return fail(Code::InvalidRequest, "/ulimits/" + name + ": no such limit (use nofile, nproc, core, stack ..)");
    }
    if (resource->second == RLIMIT_CORE) continue;
    std::erase_if(out, [&](const Ulimit& each) { return each.resource == resource->second; });
    out.push_back({resource->second, {value, value}});
  }
  return out;
}

kernel::Limits::Io io_limits(const api::native::Limits& wanted, dev_t device) {
  const auto both = wanted.io_bytes_per_second;
  return {device, wanted.io_read_bps ? wanted.io_read_bps : both, wanted.io_write_bps ? wanted.io_write_bps : both,
          wanted.io_read_iops, wanted.io_write_iops};
}

Result<void> check_network(const api::native::CreateSandbox& spec, const SandboxConfig& config) {
  const bool host_network = spec.network == api::native::NetworkMode::Host;
  if (host_network && !config.allow_host_network) {
    return fail(Code::Forbidden, "network mode host is not allowed by this host's sandboxd (allow_host_network)");
  }
  if (host_network && !spec.ports.empty()) {
    return fail(Code::InvalidRequest, "/ports: nothing to publish in the host's network");
  }
  if (!spec.runtime.empty() && spec.network != api::native::NetworkMode::Bridge) {
    return fail(Code::Unsupported, "runtime " + spec.runtime +
                                       ": execd is reached by the sandbox's address there; use network mode bridge");
  }
  if (spec.network == api::native::NetworkMode::None && !spec.ports.empty()) {
    return fail(Code::InvalidRequest, "/ports: nothing to publish without a network");
  }
  return {};
}

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

void add_reserve(std::vector<std::string>& arguments, const SandboxPlan& plan) {
  if (plan.disk_reserve == sys::DiskReserve::Kept()) return;
  append(arguments, {"--disk-reserve", fmt::format("{},{}", plan.disk_reserve.bytes, plan.disk_reserve.inodes)});
}

void add_entrypoint(std::vector<std::string>& arguments, const SandboxPlan& plan) {
  if (plan.entrypoint.empty()) return;
  arguments.emplace_back("--");
  append(arguments, plan.entrypoint);
}

}  // namespace

NetworkMode slot_mode(api::native::NetworkMode network) {
  return network == api::native::NetworkMode::Bridge ? NetworkMode::Bridge : NetworkMode::None;
}

Result<Bandwidth> bandwidth_of(const api::native::CreateSandbox& spec, const SandboxConfig& config) {
  const bool own_network = spec.network == api::native::NetworkMode::Bridge;
  const auto rate = [&](const char* name, std::optional<std::uint64_t> wanted, std::uint64_t fallback,
                        std::uint64_t most) -> Result<std::uint64_t> {
    const auto refuse = [&](const std::string& why) {
      return fail(Code::InvalidRequest, fmt::format("/limits/network_{}: {}", name, why));
    };
    if (!own_network && !wanted) return 0;
    if (!own_network) return refuse("only with network mode bridge");
    if (!wanted) return fallback != 0 && (most == 0 || fallback < most) ? fallback : most;
    if (*wanted < kLeastBandwidth || *wanted > kMostBandwidth) {
      return refuse(
          fmt::format("{} is not between {} and {} bytes per second", *wanted, kLeastBandwidth, kMostBandwidth));
    }
    if (most != 0 && *wanted > most) {
      return refuse(
          fmt::format("{} are asked for, at most {} bytes per second are allowed ([network] max_{} of sandboxd)",
                      *wanted, most, name));
    }
    return *wanted;
  };
  auto receive = rate("receive_bps", spec.limits.network_receive_bps, config.default_bandwidth.receive,
                      config.max_bandwidth.receive);
  if (!receive) return Failure(receive.error());
  auto send = rate("send_bps", spec.limits.network_send_bps, config.default_bandwidth.send, config.max_bandwidth.send);
  if (!send) return Failure(send.error());
  return Bandwidth{.receive = *receive, .send = *send};
}

Result<SandboxPlan> plan_sandbox(const api::native::CreateSandbox& spec, const std::string& execd_token,
                                 const ResolvedImage& image, HostFacts facts, const SandboxConfig& config) {
  if (auto checked = check_network(spec, config); !checked) return Failure(checked.error());
  SandboxPlan plan;
  auto ulimits = ulimits_of(spec.ulimits);
  if (!ulimits) return Failure(ulimits.error());
  plan.ulimits = std::move(*ulimits);
  auto resolv_conf = spec.dns.empty() ? std::move(facts.resolv_conf) : resolv_conf_of(spec.dns);
  if (!resolv_conf) return Failure(resolv_conf.error());
  plan.resolv_conf = std::move(*resolv_conf);
  if (!facts.gpus) return Failure(facts.gpus.error());
  plan.devices = std::move(*facts.gpus);
  if (auto checked = check_volumes(spec.volumes); !checked) return Failure(checked.error());
  plan.volumes = spec.volumes;
  plan.limits.memory_bytes = spec.limits.memory_bytes;
  plan.limits.cpu_millis = spec.limits.cpu_millis;
  plan.limits.pids = spec.limits.pids.value_or(config.default_pids);
  if (spec.limits.limits_io()) {
    if (!facts.io_device) return with_context("/limits: io", facts.io_device.error());
    plan.limits.io = io_limits(spec.limits, *facts.io_device);
  }
  auto bandwidth = bandwidth_of(spec, config);
  if (!bandwidth) return Failure(bandwidth.error());
  plan.bandwidth = *bandwidth;
  if (!facts.layers) return Failure(facts.layers.error());
  plan.layers = std::move(*facts.layers);
  if (!facts.user) return Failure(facts.user.error());
  plan.user = std::move(*facts.user);

  plan.id = spec.id;
  plan.runtime = spec.runtime;
  plan.slot_mode = slot_mode(spec.network);
  plan.host_network = spec.network == api::native::NetworkMode::Host;
  plan.ports = spec.ports;
  plan.host_image = image.kind == ResolvedImage::Kind::Host;
  plan.read_only_root = spec.read_only_root;
  plan.disk_bytes = spec.limits.disk_bytes.value_or(config.default_disk_bytes);
  if (!config.trees.hides_disk() || plan.disk_bytes == 0) plan.disk_reserve = facts.disk_reserve;
  plan.shm_bytes = spec.limits.shm_bytes.value_or(config.default_shm_bytes);
  plan.takes_ready_root = spec.runtime.empty() && !plan.host_network && plan.shm_bytes == config.default_shm_bytes &&
                          config.trees.takes_limit(config.default_disk_bytes, plan.disk_bytes);
  plan.hostname = spec.hostname.empty() ? spec.id.substr(0, 12) : spec.hostname;
  plan.no_new_privileges = spec.no_new_privileges;
  plan.nested_user_namespaces = spec.nested_user_namespaces;
  plan.isolated_sessions = spec.isolated_sessions;
  plan.exec_label = config.exec_label;
  plan.class_seccomp = std::move(facts.class_seccomp);
  plan.core_scheduling = config.core_scheduling;
  plan.entrypoint = spec.entrypoint;
  if (plan.entrypoint.empty()) {
    plan.entrypoint = image.config.entrypoint;
    append(plan.entrypoint, image.config.cmd);
  }
  plan.env = environment(spec, image.config, plan.user, execd_token);
  if (!facts.authority) return Failure(facts.authority.error());
  if (spec.credential_proxy) set_variable(plan.env, std::string(api::kAuthorityVariable), *facts.authority);
  plan.cwd = !spec.cwd.empty() ? spec.cwd : image.config.working_dir.empty() ? "/" : image.config.working_dir;
  return plan;
}

Result<LaunchPlan> launch_plan(const SandboxPlan& plan, const Slot& slot, const std::string& tree) {
  auto seccomp = seccomp_program({.nested_user_namespaces = plan.nested_user_namespaces});
  if (!seccomp) return Failure(seccomp.error());
  LaunchPlan out;
  LayersRoot root{plan.layers, tree + "/upper", tree + "/work"};
  if (plan.host_image) {
    out.root = HostRoot{std::move(root)};
  } else {
    out.root = std::move(root);
  }
  out.read_only_root = plan.read_only_root;
  out.userns = slot.userns.get();
  out.id_base = slot.id_base;
  out.netns = plan.host_network ? -1 : slot.netns.get();
  out.shm_bytes = plan.shm_bytes;
  out.devices = plan.devices;
  out.hostname = plan.hostname;
  out.etc_hostname = plan.hostname + "\n";
  out.etc_hosts = hosts_file(plan.hostname, slot.address);
  out.etc_resolv_conf = plan.resolv_conf;
  out.uid = plan.user.uid;
  out.gid = plan.user.gid;
  out.groups = plan.user.groups;
  out.no_new_privileges = plan.no_new_privileges;
  out.nested_user_namespaces = plan.nested_user_namespaces;
  out.seccomp = *seccomp;
  if (plan.class_seccomp) out.class_seccomp = *plan.class_seccomp;
  out.core_scheduling = plan.core_scheduling;
  out.exec_label = plan.exec_label;
  out.ulimits = plan.ulimits;
  out.oom_score_adj = kOomScore;
  out.env = plan.env;
  out.cwd = plan.cwd;
  return out;
}

std::vector<std::string> execd_arguments(const SandboxPlan& plan, std::span<const std::string> cgroup_files) {
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
  for (const std::string& name : cgroup_files) append(out, {"--cgroup-file", name + "=" + inherited(fd++)});
  if (plan.isolated_sessions) append(out, {"--isolation-socket", inherited(kExitDirectoryFd) + "/" + kSessionSocket});
  add_reserve(out, plan);
  // In the host's network every process could use the port; the socket is enough.
  if (!plan.host_network) append(out, {"--port", std::to_string(kExecdPort)});
  add_entrypoint(out, plan);
  return out;
}

std::vector<std::string> oci_execd_arguments(const SandboxPlan& plan, const CgroupPlan& cgroup) {
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
    append(out, {"--cgroup-file", name + "=" + kOciCgroupDirectory + "/" + name});
  }
  add_reserve(out, plan);
  add_entrypoint(out, plan);
  return out;
}

Result<std::vector<DeviceNode>> gpu_devices(const std::string& gpus, const std::string& dev) {
  if (gpus.empty()) return std::vector<DeviceNode>{};
  const unsigned wanted = parse_number<unsigned>(gpus).value_or(0);
  const bool all = gpus == "all";
  if (!all && wanted == 0) {
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
