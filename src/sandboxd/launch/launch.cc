#include "sandboxd/launch/launch.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <fcntl.h>
#include <filesystem>
#include <linux/sched.h>
#include <optional>
#include <sched.h>
#include <signal.h>
#include <string_view>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "kernel/mount.h"
#include "kernel/namespace.h"
#include "sandboxd/launch/launch_child.h"
#include "sandboxd/launch/launch_host.h"
#include "sandboxd/launch/root_overlays.h"
#include "sys/clone.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

bool is_below(std::string_view path, std::string_view directory) {
  return path.starts_with(directory) && (path.size() == directory.size() || path[directory.size()] == '/');
}

Result<void> check_target(const std::string& target) {
  const std::string normal = std::filesystem::path(target).lexically_normal().string();
  if (!target.starts_with('/') || normal == "/" || target.find('\0') != std::string::npos) {
    return fail(Code::InvalidRequest, fmt::format("mount point {}: must be an absolute path below /", target));
  }
  for (const char* kernel_directory : {"/proc", "/sys", "/dev"}) {
    if (is_below(normal, kernel_directory)) {
      return fail(Code::InvalidRequest, fmt::format("mount point {}: {} is the kernel's", target, kernel_directory));
    }
  }
  return {};
}

Result<void> check_plan(const LaunchPlan& plan) {
  const auto invalid = [](std::string what) { return fail(Code::InvalidRequest, std::move(what)); };
  if (plan.userns < 0 || plan.program < 0 || plan.argv.empty()) return invalid("launch: no user namespace or program");
  const auto broken = [](const std::string& text) { return text.find('\0') != std::string::npos; };
  if (std::ranges::any_of(plan.argv, broken) || std::ranges::any_of(plan.env, broken)) {
    return invalid("launch: a NUL byte in an argument or the environment");
  }
  if (!plan.cwd.starts_with('/') || broken(plan.cwd)) {
    return invalid(fmt::format("working directory {}: must be an absolute path", plan.cwd));
  }
  if (plan.stage && (plan.etc_hosts.empty() || plan.etc_resolv_conf.empty() || plan.etc_hostname.empty())) {
    return invalid("launch: a stage needs all files of /etc");
  }
  for (const PreparedMount& mount : plan.mounts) {
    if (auto ok = check_target(mount.target); !ok) return ok;
  }
  for (const DeviceNode& device : plan.devices) {
    const std::filesystem::path name(device.name);
    if (name.empty() || name.is_absolute() || broken(device.name) || name.lexically_normal() != name ||
        *name.begin() == "..") {
      return invalid(fmt::format("device {}: must be a path below /dev", device.name));
    }
  }
  for (const auto& [name, fd] : plan.cgroup.view) {
    if (fd < 0 || broken(name) || name.find('/') != std::string::npos || name.starts_with('.') ||
        (name.empty() && plan.cgroup.view.size() != 1)) {
      return invalid("cgroup view: wrong name " + name);
    }
  }
  for (const auto& [target, source] : plan.fds) {
    if (target < 0 || source < 0) return invalid("launch: a negative descriptor");
  }
  return {};
}

// Everything the child needs, in memory and as descriptors, owned until it has exec'd.
class Launch {
 public:
  Launch(LaunchPlan& plan, const LaunchHost& host) : plan_(plan), host_(host) {}

  Result<void> prepare();  // as the FileOwner of the sandbox's root
  Result<Launched> run();  // likewise

 private:
  Result<void> prepare_root();
  Result<void> prepare_mounts();
  Result<void> prepare_cgroups();
  void prepare_devices();
  void prepare_etc_file(const char* scratch, const char* target, const std::string& text);
  void prepare_descriptors();
  void fill_child();

  char* keep(std::string text) { return strings_.emplace_back(std::move(text)).data(); }

  LaunchPlan& plan_;
  const LaunchHost& host_;
  ChildPlan child_{};
  std::optional<RootOverlays> overlays_;
  std::vector<UniqueFd> owned_;
  std::deque<std::string> strings_;  // stay where they are
  std::vector<ChildMount> mounts_;
  std::vector<ChildFile> etc_files_;
  std::vector<ChildDevice> devices_;
  std::vector<ChildCgroup> cgroups_;
  std::vector<ChildLimit> limits_;
  std::vector<ChildDescriptor> descriptors_;
  std::vector<char*> argv_, envp_;
};

Result<void> Launch::prepare_root() {
  auto overlays = prepare_root_overlays(plan_.root, plan_.userns);
  if (!overlays) return Failure(overlays.error());
  overlays_ = std::move(*overlays);
  child_.upper = layers_of(plan_.root).upper.c_str();
  return {};
}

Result<void> Launch::prepare_mounts() {
  for (const PreparedMount& wanted : plan_.mounts) {
    if (wanted.read_only) {
      auto set = kernel::set_mount_attributes(wanted.mount.get(), MOUNT_ATTR_RDONLY, true);
      if (!set) return with_context("mount " + wanted.target, set.error());
    }
    mounts_.push_back({wanted.mount.get(), keep(wanted.target), wanted.is_directory});
  }
  return {};
}

Result<void> Launch::prepare_cgroups() {
  for (const auto& [name, directory] : plan_.cgroup.view) {
    auto mount = kernel::clone_mount(directory, "");
    if (mount) {
      auto set = kernel::set_mount_attributes(
          mount->get(), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
      if (!set) mount = Failure(set.error());
    }
    if (!mount) return with_context("mount /sys/fs/cgroup/" + name, mount.error());
    cgroups_.push_back({name.empty() ? nullptr : keep("/mnt/cgroup/" + name),
                        name.empty() ? "/sys/fs/cgroup" : keep("/sys/fs/cgroup/" + name), mount->get()});
    owned_.push_back(std::move(*mount));
  }
  return {};
}

void Launch::prepare_devices() {
  for (const DeviceNode& device : plan_.devices) {
    devices_.push_back({keep("/dev/" + device.name), device.mode, device.device});
  }
}

void Launch::prepare_etc_file(const char* scratch, const char* target, const std::string& text) {
  const int file = plan_.stage ? plan_.stage->etc_files[etc_files_.size()].get() : -1;
  if (!text.empty()) etc_files_.push_back({scratch, keep(target), text.data(), text.size(), file});
}

void Launch::prepare_descriptors() {
  int highest = 2;
  for (const auto& [target, source] : plan_.fds) {
    highest = std::max(highest, target);
    descriptors_.push_back({target, source});
  }
  for (int standard = 0; standard < 3; ++standard) {
    if (std::ranges::any_of(plan_.fds, [&](const auto& fd) { return fd.first == standard; })) continue;
    descriptors_.push_back({standard, standard == 0 ? -1 : plan_.log});
  }
  child_.first_free = highest + 1;
}

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (std::string& text : strings) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

template <typename T, typename C>
List<T> list_of(C& items) {
  return {items.data(), items.size()};
}

void Launch::fill_child() {
  child_.stage_mounts = plan_.stage ? plan_.stage->mounts.get() : -1;
  child_.stage_ipc = plan_.stage ? plan_.stage->ipc.get() : -1;
  child_.empty_namespace = host_.empty_namespace.get();
  child_.v1_tasks = list_of<const int>(plan_.cgroup.v1_tasks);
  child_.oom_score_adj = plan_.oom_score_adj ? keep(std::to_string(*plan_.oom_score_adj)) : nullptr;
  child_.netns = plan_.netns;
  child_.cgroup_namespace = !plan_.cgroup.view.empty();
  child_.hostname = plan_.hostname.c_str();
  child_.hostname_size = plan_.hostname.size();

  child_.root = overlays_ ? &overlays_->root : nullptr;
  child_.usr = overlays_ && overlays_->usr ? &*overlays_->usr : nullptr;
  child_.has_usr = std::holds_alternative<HostRoot>(plan_.root);
  child_.etc_files = list_of<ChildFile>(etc_files_);
  child_.devices = list_of<const ChildDevice>(devices_);
  child_.devpts_options = keep(devpts_options(plan_.id_base));
  child_.shm_options = keep(shm_options(plan_.shm_bytes));
  child_.cgroups = list_of<const ChildCgroup>(cgroups_);
  child_.masks = list_of<const ChildMask>(host_.masks);
  std::ranges::fill(child_.empty_directories, -1);
  if (plan_.stage) {
    auto empty = plan_.stage->empty_directories.begin();
    for (std::size_t i = 0; i < host_.masks.size(); ++i) {
      const bool wanted = host_.masks[i].in_proc && host_.masks[i].kind == ChildMask::EmptyDirectory;
      if (wanted) child_.empty_directories[i] = (empty++)->get();
    }
  }
  child_.mounts = list_of<const ChildMount>(mounts_);
  child_.read_only_root = plan_.read_only_root;

  child_.exec_label = plan_.exec_label.empty() ? nullptr : plan_.exec_label.c_str();
  child_.exec_label_size = plan_.exec_label.size();
  child_.limits = list_of<const ChildLimit>(limits_);
  child_.userns = plan_.userns;
  child_.userns_sysctl = host_.userns_sysctl.get();
  child_.most_user_namespaces = plan_.nested_user_namespaces ? "1024" : "0";
  child_.capabilities = plan_.capabilities;
  child_.last_capability = host_.last_capability;
  child_.no_new_privileges = plan_.no_new_privileges;
  child_.groups = list_of<const gid_t>(plan_.groups);
  child_.uid = plan_.uid;
  child_.gid = plan_.gid;
  child_.cwd = plan_.cwd.data();
  child_.descriptors = list_of<ChildDescriptor>(descriptors_);
  child_.landlock = host_.landlock;
  const auto program = [](std::span<const sock_filter> filter) {
    return sock_fprog{static_cast<unsigned short>(filter.size()), const_cast<sock_filter*>(filter.data())};
  };
  child_.seccomp = program(plan_.seccomp);
  child_.class_seccomp = program(plan_.class_seccomp);
  child_.core_scheduling = plan_.core_scheduling;

  child_.program = plan_.program;
  child_.argv = argv_.data();
  child_.envp = envp_.data();
}

Result<void> Launch::prepare() {
  if (auto ok = prepare_mounts(); !ok) return ok;
  if (auto ok = prepare_cgroups(); !ok) return ok;
  prepare_devices();
  prepare_etc_file("/mnt/hosts", "/etc/hosts", plan_.etc_hosts);
  prepare_etc_file("/mnt/resolv.conf", "/etc/resolv.conf", plan_.etc_resolv_conf);
  prepare_etc_file("/mnt/hostname", "/etc/hostname", plan_.etc_hostname);
  for (const Ulimit& limit : plan_.ulimits) limits_.push_back({limit.resource, limit.limits});
  prepare_descriptors();
  argv_ = pointers_to(plan_.argv);
  envp_ = pointers_to(plan_.env);
  if (!plan_.stage) {
    if (auto ok = prepare_root(); !ok) return ok;
  }
  fill_child();
  return {};
}

Result<Launched> Launch::run() {
  auto cloned = sys::vfork_child(&run_launch_child, &child_,
                                 {.clone_flags = CLONE_NEWPID | CLONE_NEWUTS | (plan_.stage ? 0U : CLONE_NEWIPC),
                                  .exit_signal = SIGCHLD,
                                  .cgroup_fd = plan_.cgroup.v2_directory});
  if (!cloned) return Failure(cloned.error());
  if (child_.error == 0 && child_.at_exec) return Launched{cloned->pid, std::move(cloned->pidfd)};
  (void)sys::reap(*cloned);
  return Failure(error_of_child(child_));
}

}  // namespace

Result<Launched> launch(LaunchPlan plan) {
  const Result<LaunchHost>& host = launch_host();
  if (!host) return with_context("launch", host.error());
  if (auto ok = check_plan(plan); !ok) return Failure(ok.error());
  Launch launch(plan, *host);
  if (!plan.stage) {
    if (auto ok = make_usr_directories(plan.root); !ok) return with_context("launch", ok.error());
  }
  const kernel::FileOwner owner(plan.id_base);
  if (auto ok = launch.prepare(); !ok) return with_context("launch", ok.error());
  auto launched = launch.run();
  if (!launched) return with_context("launch", launched.error());
  return launched;
}

}  // namespace osb::sandboxd
