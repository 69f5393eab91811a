#include "sandboxd/sandbox/sandbox_builder.h"

#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "kernel/spread_directories.h"
#include "sandboxd/launch/host_skeleton.h"
#include "sandboxd/network/dns.h"
#include "sandboxd/sandbox/reservation.h"
#include "sys/remove_tree.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;

// With the directories above it; the last one gets the mode, even if it exists.
Result<void> own_directory(const std::string& path, mode_t mode, gid_t group) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return sys::from_errno("create directory " + path, error.value());
  if (::chown(path.c_str(), 0, group) < 0) return sys::from_errno("chown " + path, errno);
  if (::chmod(path.c_str(), mode) < 0) return sys::from_errno("chmod " + path, errno);
  return {};
}

// The mount points of a launch, for images that lack them: a missing one would have to be made in the upper layer, and
// its directory be copied up for that.
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

// Removes skeletons and masks of other boots: none of their sandboxes lives.
void remove_other_skeletons(const std::string& parent, const std::string& current) {
  const auto directory = sys::open_at(AT_FDCWD, parent, O_RDONLY | O_DIRECTORY);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    const std::string name = entry.path().filename().string();
    if (directory && !name.starts_with(current)) (void)sys::remove_tree(directory->get(), name);
  }
}

}  // namespace

Result<std::unique_ptr<SandboxBuilder>> SandboxBuilder::open(SandboxConfig config, HostParts parts) {
  std::unique_ptr<SandboxBuilder> out(new SandboxBuilder(std::move(config), std::move(parts)));
  const SandboxConfig& c = out->config_;
  for (const std::string& path :
       {c.state_directory, c.state_directory + "/host", c.disk(), c.disk() + "/sandboxes", c.disk() + "/trash"}) {
    if (auto made = own_directory(path, 0700, 0); !made) return Failure(made.error());
  }
  for (const std::string& id : out->ids()) c.trees.fit(c.directory(id));
  auto directories = ReadyDirectories::open(c.disk(), c.trees, c.default_disk_bytes);
  if (!directories) return Failure(directories.error());
  out->directories_ = std::move(*directories);
  out->roots_ = std::make_unique<ReadyRoots>(out->parts_.slots, *out->directories_, c.default_shm_bytes,
                                             out->parts_.cgroups.view_names());
  // Neighbours on disk slow each other down (kernel/spread_directories.h).
  if (auto spread = kernel::spread_subdirectories(c.disk() + "/sandboxes"); !spread) return Failure(spread.error());
  for (const char* name : {"", "/execd"}) {
    if (auto made = own_directory(c.run_directory + name, 0750, c.group); !made) return Failure(made.error());
  }
  if (auto made = own_directory(c.run_directory + "/oci", 0700, 0); !made) return Failure(made.error());
  auto launcher = SandboxLauncher::open(c, out->parts_);
  if (!launcher) return Failure(launcher.error());
  out->launcher_.emplace(std::move(*launcher));
  out->teardown_.emplace(c, out->parts_, *out->launcher_);
  out->mount_points_ = c.state_directory + "/mount-points";
  if (auto made = make_mount_points(out->mount_points_); !made) return Failure(made.error());
  if (auto made = out->make_host_skeleton(); !made) return Failure(made.error());
  return out;
}

Result<void> SandboxBuilder::make_host_skeleton() {
  if (!config_.allow_host_image) return {};
  auto boot = sys::read_text("/proc/sys/kernel/random/boot_id");
  if (!boot) return Failure(boot.error());
  const std::string name = boot->substr(0, 36), parent = config_.state_directory + "/host";
  remove_other_skeletons(parent, name);
  if (auto made = build_host_skeleton(parent + "/" + name); !made) {
    log_warn("no host image", {{"error", made.error().message}});
  } else {
    skeleton_ = parent + "/" + name;
    mask_ = std::make_unique<HostMask>(parent, name);
  }
  return {};
}

std::vector<std::string> SandboxBuilder::ids() const {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(config_.disk() + "/sandboxes", error)) {
    out.push_back(entry.path().filename().string());
  }
  return out;
}

Result<std::vector<std::string>> SandboxBuilder::layers_of(const SandboxBase& base) const {
  std::vector<std::string> out = base.snapshot_layers;
  if (base.image.kind == ResolvedImage::Kind::Host) {
    if (!config_.allow_host_image) {
      return fail(Code::Forbidden, "image host is turned off: [sandbox] allow_host_image in sandboxd's settings");
    }
    if (skeleton_.empty()) return fail(Code::Unsupported, "image host: this host's /usr cannot be used, see the log");
    auto mask = mask_->layer();
    if (!mask) return with_context("image host", mask.error());
    if (!mask->empty()) out.push_back(std::move(*mask));
    out.push_back(skeleton_);
    return out;
  }
  for (const auto& layer : base.image.layers) out.push_back(layer.root().string());
  if (out.empty()) return fail(Code::InvalidRequest, "image " + base.image.name + " has no layers");
  out.push_back(mount_points_);
  return out;
}

HostFacts SandboxBuilder::look_up(const api::native::CreateSandbox& spec, const SandboxBase& base) const {
  HostFacts facts;
  if (spec.dns.empty()) {
    SandboxDns dns = sandbox_dns(config_.dns);
    facts.resolv_conf = std::move(dns.resolv_conf);
    // The host's name servers may have changed since the last create.
    if (auto allowed = parts_.rules.allow_resolvers(dns.servers); !allowed)
      facts.resolv_conf = Failure(allowed.error());
  }
  facts.gpus = gpu_devices(spec.gpus);
  if (spec.credential_proxy) facts.authority = parts_.authority();
  if (spec.limits.limits_io()) facts.io_device = kernel::io_device(config_.disk());
  facts.disk_reserve = config_.reserve.kept();
  facts.layers = layers_of(base);
  if (facts.layers) facts.user = find_image_user(spec.user.empty() ? base.image.config.user : spec.user, *facts.layers);
  return facts;
}

Result<LiveSandbox> SandboxBuilder::build(SandboxRecord& record, const SandboxBase& base) const {
  const std::string directory = config_.directory(record.spec.id);
  if (::access(directory.c_str(), F_OK) == 0) {
    return fail(Code::Conflict,
                directory + " is left of a sandbox whose record could not be read: look at it and remove it");
  }
  HostFacts facts = look_up(record.spec, base);
  if (const auto found = config_.classes.find(record.native_class); found != config_.classes.end()) {
    facts.class_seccomp = found->second.seccomp;
  }
  const auto plan = plan_sandbox(record.spec, record.status.execd_token, base.image, std::move(facts), config_);
  if (!plan) return Failure(plan.error());
  const ReservationParts parts{config_, parts_, *directories_, *roots_, *teardown_};
  Reservation taken(parts, *plan, record);
  if (auto done = taken.take(); !done) return Failure(done.error());
  if (auto started = launcher_->start(taken, *plan, record); !started) return Failure(started.error());
  if (auto published = taken.publish_ports(); !published) return Failure(published.error());
  if (auto saved = save_record(directory, record); !saved) return Failure(saved.error());
  config_.step("started");
  return taken.commit();
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
  if (!record.slot) return live;
  const bool host_network = record.spec.network == api::native::NetworkMode::Host;
  const auto holder = !record.spec.runtime.empty() ? SlotHolder::Runtime
                      : host_network               ? SlotHolder::InHostNetwork
                                                   : SlotHolder::Sandbox;
  auto slot = parts_.slots.adopt(*record.slot, slot_mode(record.spec.network), record.process->pid, holder);
  if (!slot) return with_context("network slot of a living sandbox", slot.error());
  live.slot = std::move(*slot);
  if (record.network_policy) {
    if (parts_.policies == nullptr)
      return fail(Code::Unsupported, "its network policy cannot be enforced on this host (any more)");
    auto enforced = parts_.policies->add(record.spec.id, live.slot->index, *record.network_policy,
                                         NetworkPolicies::Sandbox::FoundAgain);
    if (!enforced) return Failure(enforced.error());
  }
  // The firewall's part of it ended with the earlier daemon.
  if (const auto bandwidth = bandwidth_of(record.spec, config_); bandwidth && bandwidth->limited()) {
    if (auto limited = parts_.slots.limit_bandwidth(*live.slot, *bandwidth); !limited)
      log_warn("bandwidth not limited again", {{"id", record.spec.id}, {"error", limited.error().message}});
  }
  live.volumes = parts_.volumes.hold(record.volumes);
  for (const api::native::PublishedPort& port : record.status.ports) {
    if (auto published = parts_.rules.publish(published_port(port, live.slot->index)); !published)
      log_warn("port not published again", {{"id", record.spec.id}, {"error", published.error().message}});
  }
  return live;
}

}  // namespace osb::sandboxd
