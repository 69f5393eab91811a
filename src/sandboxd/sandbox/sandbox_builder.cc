#include "sandboxd/sandbox/sandbox_builder.h"

#include <cstring>
#include <filesystem>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "kernel/spread_directories.h"
#include "sandboxd/launch/host_skeleton.h"
#include "sandboxd/launch/seccomp_profile.h"
#include "sandboxd/sandbox/cgroup_to_come.h"
#include "sandboxd/sandbox/disk_limit.h"
#include "sandboxd/sandbox/image_user.h"
#include "sandboxd/sandbox/launch_request.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;

// With the directories above it; the last one gets the mode, whatever it had.
Result<void> own_directory(const std::string& path, mode_t mode, gid_t group) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return sys::from_errno("create directory " + path, error.value());
  if (::chown(path.c_str(), 0, group) < 0) return sys::from_errno("chown " + path, errno);
  if (::chmod(path.c_str(), mode) < 0) return sys::from_errno("chmod " + path, errno);
  return {};
}

// What a launch mounts over, for images that do not have it: what is missing would have to be made in the upper layer,
// and its directory be copied up for that.
Result<void> make_mount_points(const std::string& path) {
  for (const char* name : {"", "/dev", "/etc", "/proc", "/sys"}) {
    if (auto made = own_directory(path + name, 0755, 0); !made) return made;
  }
  for (const char* name : {"/etc/hostname", "/etc/hosts", "/etc/resolv.conf"}) {
    auto made = sys::open_at(AT_FDCWD, path + name, O_WRONLY | O_CREAT, 0644);
    if (!made) return Failure(made.error());
  }
  return {};
}

kernel::Limits limits_of(const api::native::Limits& wanted, const SandboxConfig& config) {
  kernel::Limits out;
  out.memory_bytes = wanted.memory_bytes;
  out.cpu_millis = wanted.cpu_millis;
  out.pids = wanted.pids.value_or(config.default_pids);
  return out;
}

Result<void> add_io_limit(kernel::Limits& limits, std::uint64_t bytes_per_second, const std::string& state) {
  auto device = kernel::io_device(state);
  if (!device) return with_context("limit io_bytes_per_second", device.error());
  limits.io = kernel::Limits::Io{*device, bytes_per_second, bytes_per_second};
  return {};
}

}  // namespace

Result<std::unique_ptr<SandboxBuilder>> SandboxBuilder::open(SandboxConfig config, Parts parts) {
  std::unique_ptr<SandboxBuilder> out(new SandboxBuilder(std::move(config), parts));
  const SandboxConfig& c = out->config_;
  for (const char* name : {"", "/sandboxes", "/trash", "/host"}) {
    if (auto made = own_directory(c.state_directory + name, 0700, 0); !made) return Failure(made.error());
  }
  if (c.default_disk_bytes != 0 && !has_disk_limits(c.state_directory)) {
    return fail(Code::Unsupported, "[sandbox] default_disk_bytes: the file system of " + c.state_directory +
                                       " has no project quotas; see `sandboxd check`");
  }
  auto ready = ReadyDirectories::open(c.state_directory);
  if (!ready) return Failure(ready.error());
  out->ready_ = std::move(*ready);
  out->roots_ =
      std::make_unique<ReadyRoots>(parts.slots, *out->ready_, c.default_shm_bytes, parts.cgroups.view_names());
  // Neighbours on disk slow each other down (kernel/spread_directories.h).
  if (auto spread = kernel::spread_subdirectories(c.state_directory + "/sandboxes"); !spread)
    return Failure(spread.error());
  for (const char* name : {"", "/execd"}) {
    if (auto made = own_directory(c.run_directory + name, 0750, c.group); !made) return Failure(made.error());
  }
  if (auto made = own_directory(c.run_directory + "/oci", 0700, 0); !made) return Failure(made.error());
  for (const auto& [name, program] : c.runtimes) {
    out->runtimes_.emplace(name, std::make_unique<OciRuntime>(name, program, c.run_directory + "/oci"));
  }
  if (out->socket(std::string(64, 'x')).size() >= sizeof(sockaddr_un::sun_path)) {
    return fail(Code::InvalidRequest, "run directory " + c.run_directory + ": too long for the names of sockets");
  }
  auto execd = sys::open_at(AT_FDCWD, c.execd, O_PATH);
  if (!execd) return with_context("execd", execd.error());
  out->execd_ = std::move(*execd);
  out->mount_points_ = c.state_directory + "/mount-points";
  if (auto made = make_mount_points(out->mount_points_); !made) return Failure(made.error());
  auto boot = sys::read_text("/proc/sys/kernel/random/boot_id");
  if (!boot) return Failure(boot.error());
  out->skeleton_ = c.state_directory + "/host/" + boot->substr(0, 36);
  if (auto made = build_host_skeleton(out->skeleton_); !made) {
    log_warn("no host image", {{"error", made.error().message}});
    out->skeleton_.clear();
  }
  return out;
}

std::vector<std::string> SandboxBuilder::ids() const {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(config_.state_directory + "/sandboxes", error)) {
    out.push_back(entry.path().filename().string());
  }
  return out;
}

Result<void> SandboxBuilder::make_directories(const api::native::CreateSandbox& spec) const {
  const std::string path = directory(spec.id);
  const std::uint64_t disk_bytes = spec.limits.disk_bytes.value_or(config_.default_disk_bytes);
  if (disk_bytes == 0) return ready_->take(path);
  if (auto made = ready_->make_empty(path); !made) return made;
  return limit_disk(path, disk_bytes);
}

Result<UniqueFd> SandboxBuilder::listen(const std::string& id) const {
  const std::string path = socket(id);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return sys::from_errno("socket", errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  // Before there is a name: nobody gets in with other rights for a moment.
  ::fchmod(fd.get(), 0660);
  const auto bind = [&] { return ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0; };
  // The name can be left of a sandbox that a crash has ended.
  if (!bind() && (errno != EADDRINUSE || ::unlink(path.c_str()) < 0 || !bind())) {
    return sys::from_errno("bind " + path, errno);
  }
  if (config_.group != ::getegid()) {
    // The umask has taken the group's right to write, which connecting needs.
    if (::chown(path.c_str(), 0, config_.group) < 0) return sys::from_errno("chown " + path, errno);
    if (::chmod(path.c_str(), 0660) < 0) return sys::from_errno("chmod " + path, errno);
  }
  if (::listen(fd.get(), 1024) < 0) return sys::from_errno("listen " + path, errno);
  return fd;
}

// So that a crash between here and the first record with a process does not leave them for ever.
Result<void> SandboxBuilder::note_volumes_to_come(SandboxRecord& record, std::span<const VolumeSpec> volumes) const {
  const auto goes = [](const VolumeSpec& each) {
    return each.kind == VolumeSpec::Kind::Named && each.create_if_missing && each.delete_with_sandbox;
  };
  if (std::ranges::none_of(volumes, goes)) return {};
  auto there = parts_.volumes.list();
  if (!there) return Failure(there.error());
  for (const VolumeSpec& each : volumes) {
    if (goes(each) && std::ranges::find(*there, each.source) == there->end()) {
      record.volumes_to_delete.push_back(each.source);
    }
  }
  return record.volumes_to_delete.empty() ? Result<void>() : save_record(directory(record.spec.id), record);
}

Result<LiveSandbox> SandboxBuilder::build(SandboxRecord& record, const SandboxBase& base) const {
  if (::access(directory(record.spec.id).c_str(), F_OK) == 0) {
    return fail(Code::Conflict, directory(record.spec.id) +
                                    " is left of a sandbox whose record could not be read: look at it and remove it");
  }
  LiveSandbox live;
  auto built = build_into(live, record, base);
  if (built) return live;
  record.volumes_to_delete = live.new_volumes;
  tear_down(record, std::move(live));
  erase(record);
  return Failure(built.error());
}

Result<NewCgroup> SandboxBuilder::make_cgroup(const std::string& id, const kernel::Limits& limits) const {
  auto group = parts_.cgroups.create(id, limits);
  if (!group) return Failure(group.error());
  auto join = group->open_join();
  auto view = join ? group->open_view() : Failure(join.error());
  if (view) {
    auto hidden = group->open_hidden_stats();
    return NewCgroup{std::move(*group), std::move(*join), std::move(*view), std::move(hidden)};
  }
  if (auto removed = group->remove(); !removed) log_error("cgroup left", {{"error", removed.error().message}});
  return Failure(view.error());
}

Result<std::vector<std::string>> SandboxBuilder::layers_of(const SandboxBase& base) const {
  std::vector<std::string> out = base.snapshot_layers;
  if (base.image.kind == ResolvedImage::Kind::Host) {
    if (skeleton_.empty()) return fail(Code::Unsupported, "image host: this host's /usr cannot be used, see the log");
    out.push_back(skeleton_);
    return out;
  }
  for (const auto& layer : base.image.layers) out.push_back(layer.root().string());
  if (out.empty()) return fail(Code::InvalidRequest, "image " + base.image.name + " has no layers");
  out.push_back(mount_points_);
  return out;
}

bool SandboxBuilder::is_ordinary(const api::native::CreateSandbox& spec) const {
  return spec.runtime.empty() && spec.network != api::native::NetworkMode::Host &&
         spec.limits.disk_bytes.value_or(config_.default_disk_bytes) == 0 &&
         spec.limits.shm_bytes.value_or(config_.default_shm_bytes) == config_.default_shm_bytes;
}

Result<void> SandboxBuilder::build_into(LiveSandbox& live, SandboxRecord& record, const SandboxBase& base) const {
  const api::native::CreateSandbox& spec = record.spec;
  const std::string& id = spec.id;
  const bool host_network = spec.network == api::native::NetworkMode::Host;
  if (host_network && !config_.allow_host_network) {
    return fail(Code::Forbidden, "network mode host is not allowed by this host's sandboxd (allow_host_network)");
  }
  if (host_network && !spec.ports.empty()) {
    return fail(Code::InvalidRequest, "/ports: nothing to publish in the host's network");
  }
  if (!spec.runtime.empty() && spec.network != api::native::NetworkMode::Bridge) {
    return fail(Code::Unsupported, "runtime " + spec.runtime +
                                       ": execd is reached by the sandbox's address there; use network mode bridge");
  }
  auto ulimits = ulimits_of(spec);
  if (!ulimits) return Failure(ulimits.error());
  auto resolv_conf = resolv_conf_of(spec, config_.dns);
  if (!resolv_conf) return Failure(resolv_conf.error());
  auto gpus = gpu_devices(spec.gpus);
  if (!gpus) return Failure(gpus.error());
  const auto volume_specs = volumes_of(spec);
  if (auto checked = check_volumes(volume_specs); !checked) return checked;
  kernel::Limits limits = limits_of(spec.limits, config_);
  if (spec.limits.io_bytes_per_second) {
    if (auto added = add_io_limit(limits, *spec.limits.io_bytes_per_second, config_.state_directory); !added) {
      return added;
    }
  }

  auto lower = layers_of(base);
  if (!lower) return Failure(lower.error());
  const bool host_image = base.image.kind == ResolvedImage::Kind::Host;
  const auto mode = spec.network == api::native::NetworkMode::Bridge ? NetworkMode::Bridge : NetworkMode::None;
  std::optional<RootKind> kind;
  if (is_ordinary(spec)) {
    auto found = RootKind::of(*lower, host_image, mode);
    if (!found) return Failure(found.error());
    kind = std::move(*found);
  }

  CgroupToCome cgroup(live, parts_.pool, [&] { return make_cgroup(id, limits); });
  std::optional<ReadyRoot> ready;
  if (kind) ready = roots_->take(*kind);
  if (ready) {
    live.slot = std::move(ready->slot);
    if (auto named = ready_->give_name(ready->directory, directory(id)); !named) return named;
  } else if (auto made = make_directories(spec); !made) {
    return made;
  }
  step("directories");
  // A directory without a record is an unfinished create too. Only volumes that go with the sandbox have to be known by
  // name, and an OCI runtime's state; writing it costs a twentieth of a create.
  if (!volume_specs.empty() || !spec.runtime.empty()) {
    if (auto saved = save_record(directory(id), record); !saved) return saved;
  }
  step("record");

  if (!ready) {
    auto slot = parts_.slots.take(mode);
    if (!slot && slot.error().code == Code::Unavailable && roots_->drop()) slot = parts_.slots.take(mode);
    if (!slot) return Failure(slot.error());
    live.slot = std::move(*slot);
  }
  record.slot = live.slot->index;
  record.status.address = live.slot->address;
  step("slot");

  if (auto noted = note_volumes_to_come(record, volume_specs); !noted) return noted;
  const bool noted = !record.volumes_to_delete.empty();
  auto volumes = parts_.volumes.prepare(volume_specs, live.slot->userns.get(), live.slot->id_base);
  if (!volumes) {
    record.volumes_to_delete.clear();  // what it made is gone
    return Failure(volumes.error());
  }
  live.volumes = volumes->in_use;
  live.new_volumes = volumes->created;
  record.volumes_to_delete = volumes->to_delete;
  for (const VolumeSpec& each : volume_specs) {
    if (each.kind == VolumeSpec::Kind::Named) record.volumes.push_back(each.source);
  }
  if (noted) {
    if (auto saved = save_record(directory(id), record); !saved) return saved;
  }
  step("volumes");

  LaunchPlan plan;
  auto user = find_image_user(spec.user.empty() ? base.image.config.user : spec.user, *lower);
  if (!user) return Failure(user.error());
  if (ready) {
    plan.stage = std::move(ready->stage);
  } else if (auto copied = copy_root_mode(lower->front(), directory(id) + "/upper"); !copied) {
    return copied;
  }
  LayersRoot root{std::move(*lower), directory(id) + "/upper", directory(id) + "/work"};
  if (host_image) {
    plan.root = HostRoot{std::move(root)};
  } else {
    plan.root = std::move(root);
  }
  auto seccomp = seccomp_program({.nested_user_namespaces = spec.nested_user_namespaces});
  if (!seccomp) return Failure(seccomp.error());

  plan.read_only_root = spec.read_only_root;
  plan.userns = live.slot->userns.get();
  plan.id_base = live.slot->id_base;
  plan.netns = host_network ? -1 : live.slot->netns.get();
  plan.mounts = std::move(volumes->mounts);
  plan.shm_bytes = spec.limits.shm_bytes.value_or(config_.default_shm_bytes);
  plan.devices = std::move(*gpus);
  plan.hostname = hostname_of(spec);
  plan.etc_hostname = plan.hostname + "\n";
  plan.etc_hosts = hosts_file(plan.hostname, live.slot->address);
  plan.etc_resolv_conf = std::move(*resolv_conf);
  plan.uid = user->uid;
  plan.gid = user->gid;
  plan.groups = user->groups;
  plan.no_new_privileges = spec.no_new_privileges;
  plan.nested_user_namespaces = spec.nested_user_namespaces;
  plan.seccomp = *seccomp;
  plan.exec_label = config_.exec_label;
  plan.ulimits = std::move(*ulimits);
  plan.env = execd_environment(spec, base.image.config, *user, record.status.execd_token);
  plan.cwd = !spec.cwd.empty() ? spec.cwd : base.image.config.working_dir.empty() ? "/" : base.image.config.working_dir;
  const uid_t owner = live.slot->id_base + user->uid;
  auto started = spec.runtime.empty()
                     ? start_native(live, record, std::move(plan), base.image.config, owner, cgroup)
                     : start_with_runtime(live, record, std::move(plan), base.image.config, owner, cgroup);
  if (!started) return started;
  for (const api::native::PublishedPort& port : spec.ports) {
    const Protocol protocol = port.protocol == "udp" ? Protocol::Udp : Protocol::Tcp;
    if (live.slot->address.empty()) return fail(Code::InvalidRequest, "/ports: nothing to publish without a network");
    auto host_port = parts_.firewall.publish({.protocol = protocol,
                                              .host_port = port.host_port,
                                              .host_only = false,
                                              .slot = live.slot->index,
                                              .port = port.port});
    if (!host_port) return Failure(host_port.error());
    record.status.ports.push_back({port.port, *host_port, port.protocol});
  }
  if (auto saved = save_record(directory(id), record); !saved) return saved;
  step("started");
  if (kind) roots_->want(std::move(*kind));
  return {};
}

Result<LiveSandbox> SandboxBuilder::adopt(const SandboxRecord& record) const {
  if (!record.process) return fail(Code::NotFound, "sandbox " + record.spec.id + " was never started");
  LiveSandbox live;
  auto pidfd = kernel::open_same(*record.process);
  if (!pidfd) return Failure(pidfd.error());
  live.pidfd = std::move(*pidfd);
  auto cgroup = parts_.cgroups.open_existing(record.spec.id);
  if (!cgroup) return with_context("cgroup of a living sandbox", cgroup.error());
  live.cgroup = std::move(*cgroup);
  if (record.slot) {
    const auto mode = record.spec.network == api::native::NetworkMode::Bridge ? NetworkMode::Bridge : NetworkMode::None;
    const bool host_network = record.spec.network == api::native::NetworkMode::Host;
    const auto holder = !record.spec.runtime.empty() ? SlotHolder::Runtime
                        : host_network               ? SlotHolder::InHostNetwork
                                                     : SlotHolder::Sandbox;
    auto slot = parts_.slots.adopt(*record.slot, mode, record.process->pid, holder);
    if (!slot) return with_context("network slot of a living sandbox", slot.error());
    live.slot = std::move(*slot);
    live.volumes = parts_.volumes.hold(record.volumes);
    for (const api::native::PublishedPort& port : record.status.ports) {
      auto published = parts_.firewall.publish({.protocol = port.protocol == "udp" ? Protocol::Udp : Protocol::Tcp,
                                                .host_port = port.host_port,
                                                .host_only = false,
                                                .slot = live.slot->index,
                                                .port = port.port});
      if (!published)
        log_warn("port not published again", {{"id", record.spec.id}, {"error", published.error().message}});
    }
  }
  return live;
}

}  // namespace osb::sandboxd
