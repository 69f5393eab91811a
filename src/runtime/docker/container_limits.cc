#include "runtime/docker/container_limits.h"

#include <algorithm>
#include <set>
#include <sys/sysmacros.h>

#include <boost/json/array.hpp>
#include <fmt/format.h>

#include "api/lifecycle_error.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "config/ceilings.h"
#include "kernel/limited_cgroup.h"
#include "runtime/docker/engine_json.h"
#include "sys/text_file.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;

constexpr int kOomScore = 500;
constexpr std::uint64_t kMemoryPerContainer = 32 << 20;  // an idle one with its shim
constexpr std::uint64_t kPortPairs = 10'000;             // PortPool

Failure refuse(std::string_view name, std::string_view why) {
  return api::invalid_parameter(api::join_pointer("/resourceLimits", name), why);
}

// The node in /dev of the disk that holds `path`.
Result<std::string> disk_node(const std::string& path) {
  const auto device = kernel::io_device(path);
  if (!device) return Failure(device.error());
  const auto text = sys::read_text(fmt::format("/sys/dev/block/{}:{}/uevent", major(*device), minor(*device)));
  std::string out;
  if (text) {
    sys::for_each_line(*text, [&](std::string_view line) {
      constexpr std::string_view kName = "DEVNAME=";
      if (line.starts_with(kName)) out = "/dev/" + std::string(line.substr(kName.size()));
    });
  }
  if (out.empty()) return fail(Code::Unsupported, "the disk of " + path + " has no node in /dev");
  return out;
}

// Only these drivers take a size. overlay2 needs the mount option pquota besides, which only a create shows.
std::string why_no_disk_limit(const json::value& info) {
  const std::string driver = engine::text(info, {"Driver"});
  std::string file_system;
  if (const json::value* rows = engine::find(info, {"DriverStatus"}); rows != nullptr && rows->is_array()) {
    for (const json::value& row : rows->get_array()) {
      if (!row.is_array() || row.get_array().size() != 2 || row.get_array()[0] != "Backing Filesystem") continue;
      if (row.get_array()[1].is_string()) file_system = row.get_array()[1].get_string();
    }
  }
  if (driver == "btrfs" || driver == "zfs") return "";
  if ((driver == "overlay2" || driver == "overlay") && file_system == "xfs") return "";
  return "the engine's storage driver " + driver + (file_system.empty() ? "" : " on " + file_system) +
         " has no limit of size; it needs overlay2 on xfs with pquota, btrfs or zfs";
}

// Processes that the kernel of this machine gives at once; 0: unknown.
std::int64_t kernel_pids() {
  const auto read = [](const char* path) {
    auto text = sys::read_text(path);
    while (text && text->ends_with('\n')) text->pop_back();
    return text ? parse_number<std::int64_t>(*text).value_or(0) : 0;
  };
  return std::min(read("/proc/sys/kernel/pid_max"), read("/proc/sys/kernel/threads-max"));
}

std::string why_no_io_limit(const json::value& info, bool local) {
  if (!local) return "the engine is on another machine, whose disks the server does not know";
  const auto warnings = engine::string_list(info, {"Warnings"});
  const bool missing =
      std::ranges::any_of(warnings, [](const std::string& each) { return each.contains("blkio throttle"); });
  return missing ? "the kernel of the engine has no limits of io" : "";
}

json::array device_rate(const std::string& device, std::uint64_t rate) {
  json::array out;
  out.emplace_back(json::object{{"Path", device}, {"Rate", rate}});
  return out;
}

}  // namespace

Result<LimitFacts> limit_facts(const json::value& info, const DockerOptions& options, bool local, bool rootless) {
  LimitFacts out;
  const auto amount = [&](const char* key) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(engine::number(info, {key}), 0));
  };
  const config::MachineSize machine{.memory_bytes = amount("MemTotal"),
                                    .cpus = amount("NCPU"),
                                    .network_slots = kPortPairs,
                                    .memory_per_sandbox = kMemoryPerContainer};
  auto ceilings = config::derive_ceilings(options.docker.ceilings, machine, "docker");
  if (!ceilings) return Failure(ceilings.error());
  out.ceilings = *ceilings;
  // Not of the machine's size above: what a container itself takes is not known in processes.
  if (options.docker.ceilings.total_pids < 0 && local) out.ceilings.total_pids = kernel_pids() / 4 * 3;
  // Podman says that it can even where it cannot: without root, and without the cgroups that a user can be given.
  const bool undelegated = rootless && engine::text(info, {"CgroupVersion"}) == "1";
  if (undelegated) {
    log_warn("a rootless engine on cgroup v1 can neither limit nor pause sandboxes; use cgroup v2", {});
  }
  const std::pair<const char*, const char*> flags[] = {
      {"memory", "MemoryLimit"}, {"cpu", "CpuCfsQuota"}, {"pids", "PidsLimit"}};
  for (const auto& [limit, flag] : flags) {
    const json::value* can = engine::find(info, {flag});
    if (undelegated || (can != nullptr && can->is_bool() && !can->get_bool())) out.not_enforced.insert(limit);
  }
  out.no_disk_limit = why_no_disk_limit(info);
  out.no_io_limit = undelegated ? "the engine cannot enforce it" : why_no_io_limit(info, local);
  if (out.no_io_limit.empty()) {
    auto node = disk_node(engine::text(info, {"DockerRootDir"}));
    if (node) out.io_device = std::move(*node);
    if (!node) out.no_io_limit = node.error().message;
  }
  if (out.ceilings.limits_io() && !out.no_io_limit.empty()) {
    return fail(Code::Unsupported, "[docker] limits of io (default_io_.., max_io_..): " + out.no_io_limit);
  }
  return out;
}

Result<ContainerLimits> container_limits(const std::optional<api::StringMap>& wanted, const DockerOptions& options,
                                         const EngineFacts& facts) {
  auto asked = api::read_resource_limits(wanted);
  if (!asked) return Failure(asked.error());
  for (const auto& [name, value] : wanted.value_or(api::StringMap())) {
    if (facts.limits.not_enforced.contains(name)) return refuse(name, "the container engine cannot enforce it");
    if (name.starts_with("network-")) return refuse(name, "container engines have no limit of bandwidth");
    if (name.starts_with("io-") && !facts.limits.no_io_limit.empty()) return refuse(name, facts.limits.no_io_limit);
  }
  if (asked->disk_bytes && !facts.limits.no_disk_limit.empty()) return refuse("disk", facts.limits.no_disk_limit);
  const config::Ceilings& ceilings = facts.limits.ceilings;
  auto ok = config::check_bytes("memory", asked->memory_bytes.value_or(0), ceilings.max_memory_bytes,
                                "[docker] max_memory_bytes");
  const auto cpu_millis = static_cast<std::uint64_t>((asked->nano_cpus.value_or(0) + 999'999) / 1'000'000);
  if (ok) ok = config::check_number("cpu", cpu_millis, ceilings.max_cpu_millis, "[docker] max_cpu_millis", "m");
  const auto pids = options.docker.pids_limit;
  if (ok) ok = config::check_number("pids", asked->pids.value_or(0), pids.value_or(0), "[docker] pids_limit");
  if (!ok) return api::refuse(Code::InvalidRequest, api::reason::kInvalidParameter, ok.error().message);
  ContainerLimits out;
  out.pids = asked->pids ? static_cast<std::int64_t>(*asked->pids) : pids;
  out.amounts = *asked;
  if (!out.amounts.memory_bytes && ceilings.default_memory_bytes > 0 && !facts.limits.not_enforced.contains("memory")) {
    out.amounts.memory_bytes = static_cast<std::uint64_t>(ceilings.default_memory_bytes);
  }
  if (!out.amounts.nano_cpus && ceilings.default_cpu_millis > 0 && !facts.limits.not_enforced.contains("cpu")) {
    out.amounts.nano_cpus = ceilings.default_cpu_millis * 1'000'000;
  }
  std::optional<std::uint64_t>* const rates[] = {&out.amounts.io_read_bps, &out.amounts.io_write_bps,
                                                 &out.amounts.io_read_iops, &out.amounts.io_write_iops};
  for (std::size_t i = 0; i < config::kIoRates.size(); ++i) {
    const auto rate = config::io_rate(config::kIoRates[i], *rates[i], ceilings, "[docker] {}");
    if (!rate) return api::refuse(Code::InvalidRequest, api::reason::kInvalidParameter, rate.error().message);
    *rates[i] = *rate;
  }
  out.io_device = facts.limits.io_device;
  out.cgroup_parent = facts.limits.cgroup_parent;
  out.ulimits = !facts.podman;
  return out;
}

void add_limits(json::object& host, const ContainerLimits& limits) {
  const api::ResourceLimits& asked = limits.amounts;
  if (asked.memory_bytes) host["Memory"] = *asked.memory_bytes;
  if (asked.nano_cpus) host["NanoCpus"] = *asked.nano_cpus;
  if (limits.pids) host["PidsLimit"] = *limits.pids;
  if (asked.disk_bytes) host["StorageOpt"] = json::object{{"size", std::to_string(*asked.disk_bytes)}};
  const std::pair<const char*, std::optional<std::uint64_t>> rates[] = {{"BlkioDeviceReadBps", asked.io_read_bps},
                                                                        {"BlkioDeviceWriteBps", asked.io_write_bps},
                                                                        {"BlkioDeviceReadIOps", asked.io_read_iops},
                                                                        {"BlkioDeviceWriteIOps", asked.io_write_iops}};
  for (const auto& [key, rate] : rates) {
    if (rate) host[key] = device_rate(limits.io_device, *rate);
  }
  // Sandboxes are killed before the host's own programs when the host runs out of memory.
  host["OomScoreAdj"] = kOomScore;
  // With a core limit of 1, and with no other, the kernel neither writes a core nor starts the host's core_pattern.
  if (limits.ulimits) {
    json::array ulimits;
    ulimits.emplace_back(json::object{{"Name", "core"}, {"Soft", 1}, {"Hard", 1}});
    host["Ulimits"] = std::move(ulimits);
  }
  if (!limits.cgroup_parent.empty()) host["CgroupParent"] = limits.cgroup_parent;
  if (asked.gpus == 0) return;
  json::array capabilities;
  capabilities.emplace_back(json::array{"gpu"});  // a list of lists; braces would flatten it
  json::array requests;
  requests.emplace_back(json::object{{"Driver", ""},
                                     {"Count", asked.gpus},
                                     {"DeviceIDs", json::array()},
                                     {"Capabilities", std::move(capabilities)},
                                     {"Options", json::object()}});
  host["DeviceRequests"] = std::move(requests);
}

}  // namespace osb::runtime
