#include "sandboxd/sandbox/sandbox_launcher.h"

#include <cstring>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "kernel/mount.h"
#include "kernel/netlink_sockets.h"
#include "sandboxd/launch/launch.h"
#include "sandboxd/network/answer_arp.h"
#include "sandboxd/network/network_config.h"
#include "sandboxd/sandbox/reservation.h"
#include "sys/syscall.h"

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

// A file that the kernel does not have, or that cannot be mounted, is left out: execd then reads the sandbox's own
// numbers of that kind elsewhere, or has none.
std::vector<std::pair<std::string, UniqueFd>> clone_stat_files(const SandboxCgroup& cgroup, const std::string& id) {
  constexpr std::uint64_t kAttributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
  std::vector<std::pair<std::string, UniqueFd>> out;
  for (const auto& [name, path] : cgroup.stat_files()) {
    auto mount = kernel::clone_mount(AT_FDCWD, path);
    if (!mount && mount.error().code == Code::NotFound) continue;
    const auto set = mount ? kernel::set_mount_attributes(mount->get(), kAttributes) : Failure(mount.error());
    if (set) {
      out.emplace_back(name, std::move(*mount));
    } else {
      log_warn("file of a cgroup not shown", {{"id", id}, {"error", set.error().message}});
    }
  }
  return out;
}

// "/opensandbox/<id>"; empty where the hierarchy is not mounted in the usual place.
std::string path_in_hierarchy(const std::string& directory) {
  for (const std::string_view top : {"/sys/fs/cgroup/unified/", "/sys/fs/cgroup/"}) {
    if (directory.starts_with(top)) return directory.substr(top.size() - 1);
  }
  return "";
}

}  // namespace

Result<SandboxLauncher> SandboxLauncher::open(const SandboxConfig& config, const HostParts& parts) {
  SandboxLauncher out(config, parts);
  if (config.socket(std::string(64, 'x')).size() >= sizeof(sockaddr_un::sun_path)) {
    return fail(Code::InvalidRequest, "run directory " + config.run_directory + ": too long for the names of sockets");
  }
  auto execd = sys::open_at(AT_FDCWD, config.execd, O_PATH);
  if (!execd) return with_context("execd", execd.error());
  out.execd_ = std::move(*execd);
  for (const auto& [name, program] : config.runtimes) {
    out.runtimes_.emplace(name, std::make_unique<OciRuntime>(name, program, config.run_directory + "/oci"));
  }
  return out;
}

Result<SandboxLauncher::Runtime> SandboxLauncher::resolve_runtime(const std::string& name) const {
  const std::string& wanted = name.empty() ? config_->default_runtime : name;
  if (wanted == kNative) return Runtime();
  if (runtimes_.contains(wanted)) return Runtime{wanted, ""};
  if (config_->classes.contains(wanted)) return Runtime{"", wanted};
  std::string known = kNative;
  for (const auto& [each, about] : config_->classes) known += ", " + each;
  for (const auto& [each, runtime] : runtimes_) known += ", " + each;
  return fail(Code::InvalidRequest, "/runtime: '" + wanted + "' is not configured on this host, which has " + known);
}

Result<UniqueFd> SandboxLauncher::listen(const std::string& id) const {
  const std::string path = config_->socket(id);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return sys::from_errno("socket", errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  // Before there is a name, so that the socket never has other permissions.
  ::fchmod(fd.get(), 0660);
  const auto bind = [&] { return ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0; };
  // The name can be left of a sandbox that a crash has ended.
  if (!bind() && (errno != EADDRINUSE || ::unlink(path.c_str()) < 0 || !bind())) {
    return sys::from_errno("bind " + path, errno);
  }
  if (config_->group != ::getegid()) {
    // The umask has taken the group's right to write, which connecting needs.
    if (::chown(path.c_str(), 0, config_->group) < 0) return sys::from_errno("chown " + path, errno);
    if (::chmod(path.c_str(), 0660) < 0) return sys::from_errno("chmod " + path, errno);
  }
  if (::listen(fd.get(), 1024) < 0) return sys::from_errno("listen " + path, errno);
  return fd;
}

Result<void> SandboxLauncher::start(Reservation& taken, const SandboxPlan& plan, SandboxRecord& record) const {
  auto launch = taken.launch_plan();
  if (!launch) return Failure(launch.error());
  return plan.runtime.empty() ? start_native(taken, plan, record, std::move(*launch))
                              : start_with_runtime(taken, plan, record, std::move(*launch));
}

Result<void> SandboxLauncher::start_native(Reservation& taken, const SandboxPlan& plan, SandboxRecord& record,
                                           LaunchPlan launch) const {
  const uid_t owner = taken.owner();
  const std::string& id = plan.id;
  auto listener = listen(id);
  if (!listener) return Failure(listener.error());
  const std::string run = config_->tree(id) + "/run";
  if (::chown(run.c_str(), owner, owner) < 0) return sys::from_errno("chown " + run, errno);
  // A mount of its own: `..` of it leads nowhere.
  auto exit_directory = kernel::clone_mount(AT_FDCWD, run);
  if (!exit_directory) return Failure(exit_directory.error());
  auto log = open_log(config_->run_file(id, "entrypoint.log"), owner);
  if (!log) return Failure(log.error());
  auto execd_log = open_log(config_->run_file(id, "execd.log"), owner);
  if (!execd_log) return Failure(execd_log.error());
  launch.program = execd_.get();
  launch.fds = {{kListenFd, listener->get()}, {kExitDirectoryFd, exit_directory->get()}, {kLogFd, log->get()}};
  launch.log = execd_log->get();
  if (auto joined = taken.join_cgroup(launch.cgroup); !joined) return joined;
  std::vector<std::string> cgroup_files;
  for (const auto& [name, file] : taken.hidden_stats()) {
    launch.fds.emplace_back(kFirstCgroupFd + static_cast<int>(cgroup_files.size()), file.get());
    cgroup_files.push_back(name);
  }
  launch.argv = execd_arguments(plan, cgroup_files);
  auto launched = parts_->launch(std::move(launch));
  if (!launched) return Failure(launched.error());
  taken.live().pidfd = std::move(launched->pidfd);
  record.status.started_at = parts_->now();
  config_->step("launched");

  auto identity = kernel::identify(launched->pid);
  if (!identity) return with_context("PID 1 ended at once", identity.error());
  record.process = std::move(*identity);
  record.status.pid = launched->pid;
  record.status.execd_socket = config_->socket(id);
  return {};
}

Result<void> SandboxLauncher::start_with_runtime(Reservation& taken, const SandboxPlan& plan, SandboxRecord& record,
                                                 LaunchPlan launch) const {
  if (auto joined = taken.join_cgroup(launch.cgroup); !joined) return joined;
  LiveSandbox& live = taken.live();
  const uid_t owner = taken.owner();
  const std::string& id = plan.id;
  OciRuntime& runtime = *runtimes_.at(plan.runtime);
  OciRuntime::Container container;
  container.id = id;
  container.bundle = config_->directory(id) + "/oci";
  container.exit_directory = config_->tree(id) + "/run/exit";
  container.execd = execd_.get();
  container.cgroup_path = path_in_hierarchy(live.cgroup->v2_directory());
  for (const std::string& path : {container.bundle, container.exit_directory}) {
    if (::mkdir(path.c_str(), 0700) < 0) return sys::from_errno("create directory " + path, errno);
  }
  if (::chown(container.exit_directory.c_str(), owner, owner) < 0) {
    return sys::from_errno("chown " + container.exit_directory, errno);
  }
  auto log = open_log(config_->run_file(id, "entrypoint.log"), owner);
  if (!log) return Failure(log.error());
  container.entrypoint_log = log->get();
  auto execd_log = open_log(config_->run_file(id, "execd.log"), owner);
  if (!execd_log) return Failure(execd_log.error());
  container.execd_log = execd_log->get();
  auto watch = watch_file(config_->run_file(id, "execd.log"));
  if (!watch) return Failure(watch.error());
  live.log_watch = std::move(*watch);
  if (auto answers = answer_arp(*live.slot); !answers) return answers;
  launch.cgroup.stat_files = clone_stat_files(*live.cgroup, id);
  launch.argv = oci_execd_arguments(plan, launch.cgroup);
  auto process = runtime.launch(std::move(launch), container);
  if (!process && live.cgroup->oom_kills().value_or(0) > 0) {
    return fail(Code::InvalidRequest, "/limits/memory_bytes: too little for runtime " + runtime.name() +
                                          " itself: " + process.error().message);
  }
  if (!process) return Failure(process.error());
  live.pidfd = std::move(process->pidfd);
  record.status.started_at = parts_->now();
  config_->step("launched");
  record.status.pid = process->identity.pid;
  record.process = std::move(process->identity);
  return {};
}

void SandboxLauncher::remove_from_runtime(const SandboxRecord& record) const {
  if (record.spec.runtime.empty()) return;
  // A network stack that was killed does not close its connections: clients would wait.
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
