#include <map>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "sandboxd/oci/bundle.h"

namespace osb::sandboxd {
namespace {

namespace json = boost::json;

constexpr std::uint32_t kIds = 65536;

const std::map<int, const char*> kResources = {
    {RLIMIT_AS, "AS"},           {RLIMIT_CORE, "CORE"},         {RLIMIT_CPU, "CPU"},
    {RLIMIT_DATA, "DATA"},       {RLIMIT_FSIZE, "FSIZE"},       {RLIMIT_LOCKS, "LOCKS"},
    {RLIMIT_MEMLOCK, "MEMLOCK"}, {RLIMIT_MSGQUEUE, "MSGQUEUE"}, {RLIMIT_NICE, "NICE"},
    {RLIMIT_NOFILE, "NOFILE"},   {RLIMIT_NPROC, "NPROC"},       {RLIMIT_RSS, "RSS"},
    {RLIMIT_RTPRIO, "RTPRIO"},   {RLIMIT_RTTIME, "RTTIME"},     {RLIMIT_SIGPENDING, "SIGPENDING"},
    {RLIMIT_STACK, "STACK"},
};

template <typename T>
json::array array_of(const T& items) {
  return json::array(items.begin(), items.end());
}

json::object process_of(const LaunchPlan& plan) {
  const json::array bounding = array_of(kernel::capability_names(plan.capabilities));
  // As after our own exec: root has them all, others gain them by setuid files only.
  const json::array own = plan.uid == 0 ? bounding : json::array();
  json::array rlimits;
  for (const Ulimit& limit : plan.ulimits) {
    const auto name = kResources.find(limit.resource);
    if (name == kResources.end()) continue;
    rlimits.push_back(json::object{{"type", std::string("RLIMIT_") + name->second},
                                   {"soft", limit.limits.rlim_cur},
                                   {"hard", limit.limits.rlim_max}});
  }
  return {{"terminal", false},
          {"user", json::object{{"uid", plan.uid}, {"gid", plan.gid}, {"additionalGids", array_of(plan.groups)}}},
          {"args", array_of(plan.argv)},
          {"env", array_of(plan.env)},
          {"cwd", plan.cwd},
          {"noNewPrivileges", plan.no_new_privileges},
          {"capabilities", json::object{{"bounding", bounding}, {"effective", own}, {"permitted", own}}},
          {"rlimits", std::move(rlimits)}};
}

json::object mount(const char* type, const char* target, std::initializer_list<std::string> options) {
  return {{"destination", target}, {"type", type}, {"source", type}, {"options", array_of(options)}};
}

json::array mounts_of(const LaunchPlan& plan, const Bundle& bundle) {
  json::array out = {
      mount("proc", "/proc", {"nosuid", "noexec", "nodev"}),
      mount("tmpfs", "/dev", {"nosuid", "strictatime", "mode=755", "size=64k"}),
      mount("devpts", "/dev/pts", {"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}),
      mount("tmpfs", "/dev/shm", {"nosuid", "noexec", "nodev", "mode=1777", "size=" + std::to_string(plan.shm_bytes)}),
      mount("mqueue", "/dev/mqueue", {"nosuid", "noexec", "nodev"}),
      mount("sysfs", "/sys", {"nosuid", "noexec", "nodev", "ro"}),
  };
  for (const BundleBind& bind : bundle.binds) {
    out.push_back(json::object{{"destination", bind.target},
                               {"type", "bind"},
                               {"source", bind.source},
                               {"options", json::array{"rbind", "nosuid", "nodev", bind.read_only ? "ro" : "rw"}}});
  }
  return out;
}

json::object linux_of(const LaunchPlan& plan, const std::string& netns_path, const std::string& cgroups_path) {
  const json::array map = {json::object{{"containerID", 0}, {"hostID", plan.id_base}, {"size", kIds}}};
  json::array namespaces;
  for (const char* type : {"pid", "mount", "ipc", "uts", "user"}) namespaces.push_back(json::object{{"type", type}});
  namespaces.push_back(json::object{{"type", "network"}, {"path", netns_path}});
  json::object out{{"namespaces", std::move(namespaces)}, {"uidMappings", map}, {"gidMappings", map}};
  if (!cgroups_path.empty()) out["cgroupsPath"] = cgroups_path;
  out["maskedPaths"] =
      json::array{"/proc/acpi",          "/proc/asound",        "/proc/interrupts", "/proc/kcore",
                  "/proc/keys",          "/proc/latency_stats", "/proc/scsi",       "/proc/sched_debug",
                  "/proc/sysrq-trigger", "/proc/timer_list",    "/sys/firmware"};
  out["readonlyPaths"] = json::array{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"};
  return out;
}

}  // namespace

Result<std::string> encode_bundle_config(const LaunchPlan& plan, const Bundle& bundle, const std::string& netns_path,
                                         const std::string& cgroups_path) {
  if (!plan.devices.empty()) {
    return fail(Code::Unsupported, "gpus: device nodes do not reach sandboxes of an OCI runtime; use runtime native");
  }
  return json::serialize(json::object{{"ociVersion", "1.0.2"},
                                      {"process", process_of(plan)},
                                      {"root", json::object{{"path", bundle.root}, {"readonly", false}}},
                                      {"hostname", plan.hostname},
                                      {"mounts", mounts_of(plan, bundle)},
                                      {"linux", linux_of(plan, netns_path, cgroups_path)}});
}

}  // namespace osb::sandboxd
