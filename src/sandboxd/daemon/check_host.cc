#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/parse_number.h"
#include "base/text.h"
#include "kernel/btrfs.h"
#include "kernel/capabilities.h"
#include "kernel/core_scheduling.h"
#include "kernel/limited_cgroup.h"
#include "kernel/mount.h"
#include "kernel/mount_overlay.h"
#include "kernel/namespace.h"
#include "kernel/netlink_route.h"
#include "kernel/nftables.h"
#include "kernel/process_exit.h"
#include "kernel/project_quota.h"
#include "kernel/reflink.h"
#include "kernel/seccomp_policy.h"
#include "sandboxd/daemon/check.h"
#include "sandboxd/disk/disk_image.h"
#include "sandboxd/disk/image_tree.h"
#include "sandboxd/egress/egress_sockets.h"
#include "sandboxd/launch/seccomp_profile.h"
#include "sandboxd/network/firewall.h"
#include "sandboxd/network/firewall_rules.h"
#include "sys/pidfd.h"
#include "sys/spawn.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;
using State = HostCheck::State;

constexpr std::uint32_t kScratchId = 65'536;  // any range will do: nothing is kept under these ids
constexpr std::uint64_t kManyNamespaces = 1000;
constexpr std::chrono::seconds kPatience{5};

// Runs system calls in a child, so that what they change ends with it. They return 0 or an errno, and must not
// allocate.
Result<void> try_in_child(const std::string& what, const std::function<int()>& calls) {
  const pid_t pid = ::fork();
  if (pid < 0) return sys::from_errno("fork", errno);
  if (pid == 0) ::_exit(calls());
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  if (WIFEXITED(status)) return sys::from_errno(what, WEXITSTATUS(status));
  return fail(Code::Internal, fmt::format("{}: killed by signal {}", what, WTERMSIG(status)));
}

HostCheck check_kernel() {
  utsname name{};
  ::uname(&name);
  return {"kernel", State::Ok, fmt::format("{} {} {}", name.sysname, name.release, name.machine), ""};
}

HostCheck check_root() {
  const auto now = kernel::capabilities_of(::getpid());
  if (::geteuid() == 0 && now && (now->effective & (1ULL << *kernel::capability_number("SYS_ADMIN")))) {
    return {"root", State::Ok, "with CAP_SYS_ADMIN", ""};
  }
  return {"root", State::Required, "sandboxes are made of mounts and namespaces", "run as root, not in a container"};
}

HostCheck check_namespaces() {
  const auto done = try_in_child("unshare mount, pid, uts, ipc, cgroup and network namespaces", [] {
    const int flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP | CLONE_NEWNET;
    return ::unshare(flags) == 0 ? 0 : errno;
  });
  if (done) return {"namespaces", State::Ok, "mount, pid, uts, ipc, cgroup, network", ""};
  return {"namespaces", State::Required, done.error().message, "use a kernel that has all of them"};
}

HostCheck check_user_namespaces(const Result<UniqueFd>& userns) {
  const std::string limit(trimmed(sys::read_text("/proc/sys/user/max_user_namespaces").value_or("unknown")));
  if (!userns) {
    return {"user namespaces", State::Required, userns.error().message,
            "set user.max_user_namespaces above the number of sandboxes (it is " + limit + ")"};
  }
  if (parse_number<std::uint64_t>(limit).value_or(0) < kManyNamespaces) {
    return {"user namespaces", State::Degraded, "at most " + limit,
            "raise user.max_user_namespaces: each sandbox takes one"};
  }
  return {"user namespaces", State::Ok, "at most " + limit, ""};
}

HostCheck check_idmap(const fs::path& directory, int userns) {
  auto mapped = [&]() -> Result<void> {
    const auto mount = kernel::clone_mount(AT_FDCWD, directory);
    if (!mount) return Failure(mount.error());
    return kernel::map_mount_ids(mount->get(), userns, directory);
  }();
  if (mapped) return {"idmapped mounts", State::Ok, "on the state directory's file system", ""};
  return {"idmapped mounts", State::Required, mapped.error().message,
          "put the state directory on ext4, xfs or btrfs, with Linux 5.19 or later"};
}

HostCheck check_overlay(const fs::path& scratch, int userns) {
  auto tried = [&]() -> Result<void> {
    for (const char* name : {"lower", "upper", "work"}) {
      if (::mkdir((scratch / name).c_str(), 0755) < 0) return sys::from_errno("mkdir", errno);
    }
    const auto empty = kernel::make_empty_mount_namespace();
    if (!empty) return Failure(empty.error());
    const std::string lower = scratch / "lower";
    const auto overlay = kernel::Overlay::prepare(
        {.lower = {&lower, 1}, .upper = scratch / "upper", .work = scratch / "work", .userns = userns});
    if (!overlay) return Failure(overlay.error());
    return try_in_child("mount an overlay and write to it", [&] {
      const kernel::FileOwner owner(kScratchId);
      if (::setns(empty->get(), CLONE_NEWNS) < 0 || ::unshare(CLONE_NEWNS) < 0) return errno;
      if (overlay->mount_in_child("/mnt") < 0) return errno;
      return ::open("/mnt/file", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) < 0 ? errno : 0;
    });
  }();
  if (!tried) {
    return {"overlayfs", State::Required, tried.error().message,
            "load the overlay module; the state directory must not be on an overlay itself"};
  }
  return {"overlayfs", State::Ok, "with idmapped layers", ""};
}

void check_cgroups(std::vector<HostCheck>& out, const std::string& parent) {
  const auto cgroups = kernel::LimitedCgroups::open(fmt::format("{}-check-{}", parent, ::getpid()));
  auto tried = [&]() -> Result<void> {
    if (!cgroups) return Failure(cgroups.error());
    const auto made = cgroups->create("x", {});
    if (!made) return Failure(made.error());
    Result<void> done = made->freeze(true, kPatience);
    if (done) done = made->kill();
    const auto removed = made->remove();
    return done ? removed : done;
  }();
  const auto support = cgroups ? cgroups->support() : kernel::LimitedCgroups::Support();
  if (cgroups) (void)cgroups->remove_parent();
  if (!tried) {
    out.push_back({"cgroups", State::Required, tried.error().message,
                   "mount cgroup2 with write permission; Linux 5.14 or later is needed"});
    return;
  }
  out.push_back({"cgroups", State::Ok, support.mode + ", freezes and kills", ""});
  const auto limit = [&](const char* what, bool there, std::string advice) {
    out.push_back({what, there ? State::Ok : State::Missing, there ? "can be limited" : "limits are refused",
                   there ? "" : std::move(advice)});
  };
  limit("cgroup memory", support.memory, "boot with cgroup_enable=memory");
  limit("cgroup cpu", support.cpu, "enable the cpu controller");
  limit("cgroup pids", support.pids, "enable the pids controller: without it a fork bomb takes the host down");
  limit("cgroup io", support.io, "use a kernel with block throttling");
  if (support.memory && !support.swap) {
    out.push_back({"swap limit", State::Degraded, "swap is not accounted: a sandbox can use it beyond its memory limit",
                   "boot with swapaccount=1, or use no swap"});
  }
}

HostCheck check_seccomp() {
  const auto program = seccomp_program({});
  if (!program) return {"seccomp", State::Required, program.error().message, "use x86_64 or aarch64"};
  const auto done = try_in_child("install a seccomp filter", [&] {
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
    if (const int failed = kernel::install_seccomp(*program)) return failed;
    return ::syscall(SYS_mount, nullptr, nullptr, nullptr, 0, nullptr) < 0 && errno == EPERM ? 0 : ENOSYS;
  });
  if (done) return {"seccomp", State::Ok, fmt::format("filter of {} instructions", program->size()), ""};
  return {"seccomp", State::Required, done.error().message, "use a kernel with CONFIG_SECCOMP_FILTER"};
}

HostCheck check_policies(bool rules, const std::string& program) {
  constexpr const char* kWhat = "network policy";
  constexpr const char* kNone = "requests with a network policy are refused";
  if (!rules) return {kWhat, State::Missing, std::string("no nftables: ") + kNone, "see nftables above"};
  if (const auto usable = program.empty() ? Result<void>() : check_egress_program(program); !usable)
    return {kWhat, State::Missing, kNone, usable.error().message};
  return {kWhat, State::Ok, "by name and address, for native and gVisor sandboxes", ""};
}

void check_network(std::vector<HostCheck>& out, int userns, const CheckOptions& options) {
  constexpr const char* kNoNetwork = "sandboxes get network `none` or `host` only";
  const auto netns = kernel::make_network_namespace(userns);
  if (!netns) {
    out.push_back({"network namespace", State::Required, netns.error().message, "use a kernel with CONFIG_NET_NS"});
    return;
  }
  const auto veth = kernel::in_network_namespace(netns->get(), [&]() -> Result<void> {
    auto socket = kernel::NetlinkSocket::open(NETLINK_ROUTE);
    if (!socket) return Failure(socket.error());
    kernel::NetlinkBatch batch;
    kernel::add_veth(batch, {.name = "check0",
                             .mac = {2, 0, 0, 0, 0, 1},
                             .peer_name = "check1",
                             .peer_mac = {2, 0, 0, 0, 0, 2},
                             .peer_netns = netns->get()});
    return socket->run(batch);
  });
  out.push_back(
      veth ? HostCheck{"veth", State::Ok, "one per sandbox", ""}
           : HostCheck{"veth", State::Missing, veth.error().message + ": " + kNoNetwork, "load the veth module"});
  const auto rules = kernel::in_network_namespace(netns->get(), []() -> Result<void> {
    auto socket = kernel::NetlinkSocket::open(NETLINK_NETFILTER);
    if (!socket) return Failure(socket.error());
    const NetworkConfig config;
    kernel::NftBatch batch(config.table);
    put_table(batch, config);
    return batch.commit(*socket);
  });
  out.push_back(rules ? HostCheck{"nftables", State::Ok, "our whole rule set", ""}
                      : HostCheck{"nftables", State::Missing, rules.error().message + ": " + kNoNetwork,
                                  "use a kernel with nf_tables, nft_nat, nft_masq, nft_ct and nft_reject_inet"});
  const std::string forwarding(trimmed(sys::read_text("/proc/sys/net/ipv4/ip_forward").value_or("")));
  out.push_back(forwarding == "1" ? HostCheck{"ip_forward", State::Ok, "on", ""}
                                  : HostCheck{"ip_forward", State::Degraded, "off",
                                              "sandboxd turns it on; set net.ipv4.ip_forward=1 to decide it yourself"});
  out.push_back(check_policies(rules.has_value(), options.egress_program));
  const auto others = foreign_forward_drops(options.network);
  if (!others) return;
  for (const ForeignFirewall& each : *others) {
    out.push_back({"other firewall", State::Degraded, each.what, each.advice});
  }
}

HostCheck check_reflink(const fs::path& scratch) {
  const auto directory = sys::open_at(AT_FDCWD, scratch, O_RDONLY | O_DIRECTORY);
  const auto can = directory ? kernel::can_clone_files(directory->get()) : Result<bool>(false);
  if (can && *can) return {"reflink", State::Ok, "snapshots share blocks", ""};
  return {"reflink", State::Missing, "snapshots copy changed files",
          "put the state directory on xfs or btrfs for instant snapshots"};
}

// How each sandbox and volume is limited, and its cost. Nothing is made or mounted.
HostCheck check_disk_limit(const fs::path& scratch, const CheckOptions& options) {
  constexpr const char* kWhat = "disk limit";
  constexpr const char* kGroups = "bytes, by btrfs quota groups; a create takes about 0.1 ms more";
  const DiskImage image{options.state_directory.string(), options.disk.image_bytes};
  const auto possible = image.probe();
  if (image.wanted()) {
    if (possible) return {kWhat, State::Ok, std::string(kGroups) + "; in the image file " + image.file(), ""};
    return {kWhat, State::Required, "[disk] image_bytes: " + possible.error().message,
            "or set image_bytes to 0 and remove " + image.file()};
  }
  const std::string place = options.disk.directory.empty() ? scratch.string() : options.disk.directory;
  const auto directory = sys::open_at(AT_FDCWD, place, O_RDONLY | O_DIRECTORY);
  if (directory && kernel::has_project_quotas(directory->get())) {
    return {kWhat, State::Ok, "bytes and inodes, by project quota; a create takes about 0.1 ms more", ""};
  }
  if (directory && kernel::is_btrfs(directory->get())) {
    if (!options.disk.directory.empty() || kernel::has_btrfs_quotas(directory->get())) {
      return {kWhat, State::Ok, kGroups, ""};
    }
  }
  const std::string disk = options.disk.directory.empty() ? options.state_directory.string() : options.disk.directory;
  if (options.disk.image_files || ::access((disk + "/image-files").c_str(), F_OK) == 0) {
    if (const auto works = probe_image_trees(); !works) {
      return {kWhat, State::Required, "[disk] image_files: " + works.error().message, "or set image_files to false"};
    }
    return {kWhat, State::Ok,
            "bytes and inodes, by an image file for each sandbox and volume; a create takes about 1 ms more, without a "
            "prepared one 20 ms",
            ""};
  }
  if (directory && kernel::is_btrfs(directory->get())) {
    return {kWhat, State::Missing,
            "none: the state directory is on a btrfs whose quotas are off; only the reserve ([disk] reserve_bytes) "
            "holds new work back",
            "turn them on: btrfs quota enable --simple " + scratch.parent_path().string() +
                " (Linux 6.7; without --simple before); or set [disk] image_bytes"};
  }
  return {
      kWhat, State::Missing,
      "none: a sandbox can fill the file system of " +
          (options.disk.directory.empty() ? scratch.parent_path().string() : place) +
          "; only the reserve ([disk] reserve_bytes) holds new work back",
      possible
          ? "set [disk] image_bytes: sandboxd then keeps what sandboxes write in a btrfs of that size, in one file; "
            "or mount the file system with project quotas"
          : "mount the file system with project quotas (xfs or ext4 with prjquota), or set [disk] image_files: an ext4 "
            "in a file for each sandbox; a btrfs in one file is not possible: " +
                possible.error().message};
}

HostCheck check_lsm() {
  const std::string active(trimmed(sys::read_text("/sys/kernel/security/lsm").value_or("")));
  const bool selinux = fs::exists("/sys/fs/selinux/enforce");
  const bool apparmor = sys::read_text("/sys/module/apparmor/parameters/enabled").value_or("").starts_with("Y");
  if (selinux || apparmor) {
    return {"AppArmor, SELinux", State::Ok, selinux ? "SELinux" : "AppArmor", ""};
  }
  return {"AppArmor, SELinux", State::Missing, active.empty() ? "neither" : "neither (" + active + ")",
          "optional: a second fence around sandboxes"};
}

HostCheck check_core_scheduling() {
  if (kernel::has_core_scheduling()) {
    return {"core scheduling", State::Ok, "sandboxes can have cores of their own ([sandbox] core_scheduling)", ""};
  }
  return {"core scheduling", State::Missing, "threads of two sandboxes can share a core",
          "optional, against side channels: a kernel with CONFIG_SCHED_CORE, or SMT turned off"};
}

HostCheck check_gpu() {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& [directory, prefix] : {std::pair("/dev", "nvidia"), {"/dev", "kfd"}, {"/dev/dri", "renderD"}}) {
    for (const auto& entry : fs::directory_iterator(directory, ignored)) {
      if (entry.path().filename().string().starts_with(prefix) && entry.is_character_file(ignored)) {
        found.push_back(entry.path());
      }
    }
  }
  std::ranges::sort(found);
  if (found.empty()) return {"GPU", State::Missing, "no devices", "optional: install the driver"};
  return {"GPU", State::Ok, fmt::format("{}", fmt::join(found, " ")), ""};
}

HostCheck check_runsc(const std::string& name) {
  const char* path = std::getenv("PATH");
  const auto found = sys::find_program(name, path ? path : "/usr/local/bin:/usr/bin:/bin");
  if (found && ::access(found->c_str(), X_OK) == 0) return {"gVisor (runsc)", State::Ok, *found, ""};
  return {"gVisor (runsc)", State::Missing, name + " is not installed",
          "optional: install runsc for sandboxes with a kernel of their own"};
}

HostCheck check_exit_status() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(7);
  const auto pidfd = sys::open_pidfd(pid);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  const auto told = pidfd ? kernel::exit_of(pidfd->get()) : std::nullopt;
  if (told && told->code == 7) return {"exit status", State::Ok, "also of sandboxes older than the daemon", ""};
  return {"exit status", State::Degraded, "of sandboxes older than the daemon as far as execd has noted it",
          "use Linux 6.15 or later"};
}

// A directory in the state directory, or where that would be.
Result<fs::path> make_scratch(const fs::path& state_directory) {
  std::error_code ec;
  fs::path place = fs::absolute(state_directory, ec);
  while (!place.empty() && !fs::is_directory(place, ec) && place.has_relative_path()) place = place.parent_path();
  std::string name = place / ".sandboxd-check-XXXXXX";
  if (!::mkdtemp(name.data())) return sys::from_errno("make a directory in " + place.string(), errno);
  return fs::path(name);
}

}  // namespace

std::vector<HostCheck> check_host(const CheckOptions& options) {
  std::vector<HostCheck> out{check_kernel(), check_root()};
  if (out.back().state != State::Ok) return out;

  out.push_back(check_namespaces());
  const auto userns = kernel::make_user_namespace(kScratchId, 65'536);
  out.push_back(check_user_namespaces(userns));
  const auto scratch = make_scratch(options.state_directory);
  if (!scratch) {
    out.push_back({"state directory", State::Required, scratch.error().message, "make it writable for root"});
  } else {
    if (userns) {
      out.push_back(check_idmap(*scratch, userns->get()));
      out.push_back(check_overlay(*scratch, userns->get()));
    }
    out.push_back(check_reflink(*scratch));
    out.push_back(check_disk_limit(*scratch, options));
    std::error_code ignored;
    fs::remove_all(*scratch, ignored);
  }
  check_cgroups(out, options.cgroup_parent);
  out.push_back(check_seccomp());
  if (userns) check_network(out, userns->get(), options);
  out.push_back(check_exit_status());
  out.push_back(check_lsm());
  out.push_back(check_core_scheduling());
  out.push_back(check_gpu());
  out.push_back(check_runsc(options.runsc));
  return out;
}

}  // namespace osb::sandboxd
