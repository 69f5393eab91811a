#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time.h"
#include "kernel/mount.h"
#include "kernel/netlink_sockets.h"
#include "sandboxd/launch/launch.h"
#include "sandboxd/network/answer_arp.h"
#include "sandboxd/network/network_config.h"
#include "sandboxd/sandbox/cgroup_to_come.h"
#include "sandboxd/sandbox/launch_request.h"
#include "sandboxd/sandbox/sandbox_builder.h"
#include "sys/syscall.h"

// The two ways from a launch plan to a running execd: our own, and an OCI runtime.
namespace osb::sandboxd {
namespace {

constexpr const char* kNative = "native";

Result<UniqueFd> open_log(const std::string& path, uid_t owner) {
  auto file = sys::open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
  if (!file) return file;
  if (::fchown(file->get(), owner, owner) < 0) return sys::from_errno("chown " + path, errno);
  return file;
}

Result<UniqueFd> watch_file(const std::string& path) {
  UniqueFd watch(::inotify_init1(IN_CLOEXEC));
  if (!watch) return sys::from_errno("inotify_init", errno);
  if (::inotify_add_watch(watch.get(), path.c_str(), IN_MODIFY) < 0) return sys::from_errno("watch " + path, errno);
  return watch;
}

// "/opensandbox/<id>"; empty where the hierarchy is not mounted in the usual place.
std::string path_in_hierarchy(const std::string& directory) {
  for (const std::string_view top : {"/sys/fs/cgroup/unified/", "/sys/fs/cgroup/"}) {
    if (directory.starts_with(top)) return directory.substr(top.size() - 1);
  }
  return "";
}

// A file that the kernel does not have, or that cannot be mounted, is left out: execd then reads the sandbox's own
// numbers of that kind elsewhere, or has none.
std::vector<std::pair<std::string, UniqueFd>> clone_stat_files(const kernel::LimitedCgroup& cgroup) {
  constexpr std::uint64_t kAttributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
  std::vector<std::pair<std::string, UniqueFd>> out;
  for (const auto& [name, path] : cgroup.stat_files()) {
    auto mount = kernel::clone_mount(AT_FDCWD, path);
    if (!mount && mount.error().code == Code::NotFound) continue;
    const auto set = mount ? kernel::set_mount_attributes(mount->get(), kAttributes) : Failure(mount.error());
    if (set) {
      out.emplace_back(name, std::move(*mount));
    } else {
      log_warn("file of a cgroup not shown", {{"id", cgroup.id()}, {"error", set.error().message}});
    }
  }
  return out;
}

}  // namespace

Result<std::string> SandboxBuilder::resolve_runtime(const std::string& name) const {
  const std::string& wanted = name.empty() ? config_.default_runtime : name;
  if (wanted == kNative) return "";
  if (runtimes_.contains(wanted)) return wanted;
  std::string known = kNative;
  for (const auto& [each, runtime] : runtimes_) known += ", " + each;
  return fail(Code::InvalidRequest, "/runtime: '" + wanted + "' is not configured on this host, which has " + known);
}

Result<void> SandboxBuilder::start_native(LiveSandbox& live, SandboxRecord& record, LaunchPlan plan,
                                          const image::ImageConfig& image, uid_t owner, CgroupToCome& cgroup) const {
  const std::string& id = record.spec.id;
  auto listener = listen(id);
  if (!listener) return Failure(listener.error());
  const std::string run = directory(id) + "/run";
  if (::chown(run.c_str(), owner, owner) < 0) return sys::from_errno("chown " + run, errno);
  // A mount of its own: `..` of it leads nowhere.
  auto exit_directory = kernel::clone_mount(AT_FDCWD, run);
  if (!exit_directory) return Failure(exit_directory.error());
  auto log = open_log(run_file(id, "entrypoint.log"), owner);
  if (!log) return Failure(log.error());
  auto execd_log = open_log(run_file(id, "execd.log"), owner);
  if (!execd_log) return Failure(execd_log.error());
  plan.program = execd_.get();
  plan.fds = {{kListenFd, listener->get()}, {kExitDirectoryFd, exit_directory->get()}, {kLogFd, log->get()}};
  plan.log = execd_log->get();
  if (auto got = cgroup.get(plan); !got) return got;
  step("cgroup");
  std::vector<std::string> cgroup_files;
  for (const auto& [name, file] : cgroup.hidden_stats()) {
    plan.fds.emplace_back(kFirstCgroupFd + static_cast<int>(cgroup_files.size()), file.get());
    cgroup_files.push_back(name);
  }
  plan.argv = execd_arguments(record.spec, image, cgroup_files);
  auto launched = launch(std::move(plan));
  if (!launched) return Failure(launched.error());
  live.pidfd = std::move(launched->pidfd);
  record.status.started_at = timestamp_now();
  step("launched");

  auto identity = kernel::identify(launched->pid);
  if (!identity) return with_context("PID 1 ended at once", identity.error());
  record.process = std::move(*identity);
  record.status.pid = launched->pid;
  record.status.execd_socket = socket(id);
  return {};
}

Result<void> SandboxBuilder::start_with_runtime(LiveSandbox& live, SandboxRecord& record, LaunchPlan plan,
                                                const image::ImageConfig& image, uid_t owner,
                                                CgroupToCome& cgroup) const {
  if (auto got = cgroup.get(plan); !got) return got;
  step("cgroup");
  const std::string& id = record.spec.id;
  OciRuntime& runtime = *runtimes_.at(record.spec.runtime);
  OciRuntime::Sandbox sandbox;
  sandbox.id = id;
  sandbox.bundle = directory(id) + "/oci";
  sandbox.exit_directory = directory(id) + "/run/exit";
  sandbox.execd = execd_.get();
  sandbox.cgroup_path = path_in_hierarchy(live.cgroup->v2_directory());
  for (const std::string& path : {sandbox.bundle, sandbox.exit_directory}) {
    if (::mkdir(path.c_str(), 0700) < 0) return sys::from_errno("create directory " + path, errno);
  }
  if (::chown(sandbox.exit_directory.c_str(), owner, owner) < 0) {
    return sys::from_errno("chown " + sandbox.exit_directory, errno);
  }
  auto log = open_log(run_file(id, "entrypoint.log"), owner);
  if (!log) return Failure(log.error());
  sandbox.entrypoint_log = log->get();
  auto execd_log = open_log(run_file(id, "execd.log"), owner);
  if (!execd_log) return Failure(execd_log.error());
  sandbox.execd_log = execd_log->get();
  auto watch = watch_file(run_file(id, "execd.log"));
  if (!watch) return Failure(watch.error());
  live.log_watch = std::move(*watch);
  if (auto answers = answer_arp(*live.slot); !answers) return answers;
  plan.cgroup.stat_files = clone_stat_files(*live.cgroup);
  plan.argv = oci_execd_arguments(record.spec, image, plan.cgroup);
  auto process = runtime.launch(std::move(plan), sandbox);
  if (!process && live.cgroup->oom_kills().value_or(0) > 0) {
    return fail(Code::InvalidRequest, "/limits/memory_bytes: too little for runtime " + runtime.name() +
                                          " itself: " + process.error().message);
  }
  if (!process) return Failure(process.error());
  live.pidfd = std::move(process->pidfd);
  record.status.started_at = timestamp_now();
  step("launched");
  record.status.pid = process->identity.pid;
  record.process = std::move(process->identity);
  return {};
}

void SandboxBuilder::remove_from_runtime(const SandboxRecord& record) const {
  if (record.spec.runtime.empty()) return;
  // A network stack that was killed says no goodbye: clients would wait for it.
  if (const auto address = parse_ipv4(record.status.address)) {
    if (auto ended = kernel::end_tcp_connections_to(*address); !ended) {
      log_warn("connections left", {{"id", record.spec.id}, {"error", ended.error().message}});
    }
  }
  const auto runtime = runtimes_.find(record.spec.runtime);
  if (runtime != runtimes_.end()) {
    runtime->second->remove(record.spec.id);
  } else {
    log_warn("runtime not configured any more", {{"id", record.spec.id}, {"runtime", record.spec.runtime}});
  }
}

}  // namespace osb::sandboxd
