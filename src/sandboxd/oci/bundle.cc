#include "sandboxd/oci/bundle.h"

#include <fcntl.h>
#include <filesystem>
#include <future>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "kernel/mount.h"
#include "kernel/namespace.h"
#include "sandboxd/launch/root_overlays.h"
#include "sys/openat2.h"
#include "sys/syscall.h"
#include "sys/write_all.h"

namespace osb::sandboxd {
namespace {

// Every kernel has this directory, and it contains no files that the runtime could need.
const std::string kPlace = "/sys/firmware";

// In a thread of its own, whose namespace this becomes.
Result<UniqueFd> mount_in_empty_namespace(const RootOverlays& overlays, int empty_namespace, std::uint32_t id_base,
                                          const std::string& upper) {
  if (::unshare(CLONE_FS) < 0) return sys::from_errno("unshare", errno);
  if (::setns(empty_namespace, CLONE_NEWNS) < 0) return sys::from_errno("join the empty mount namespace", errno);
  if (::unshare(CLONE_NEWNS) < 0) return sys::from_errno("unshare the mount namespace", errno);
  ::umask(0);
  const kernel::FileOwner owner(id_base);
  if (overlays.root.mount_in_child("/root") < 0) return sys::from_errno("mount the overlay of " + upper, errno);
  if (overlays.usr) {
    if (overlays.usr->mount_in_child("/usr") < 0) return sys::from_errno("mount the overlay of /usr", errno);
    auto target = sys::open_at(AT_FDCWD, "/root/usr", O_PATH | O_DIRECTORY | O_NOFOLLOW);
    if (!target) return target;
    if (::move_mount(AT_FDCWD, "/usr", target->get(), "", MOVE_MOUNT_T_EMPTY_PATH) < 0) {
      return sys::from_errno("mount /usr", errno);
    }
  }
  return kernel::clone_mount(AT_FDCWD, "/root", true);
}

Result<void> make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) < 0) return sys::from_errno("make " + path, errno);
  return {};
}

Result<void> make_file(const std::string& path, std::string_view text) {
  auto file = sys::open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL, 0644);
  if (!file) return Failure(file.error());
  return sys::write_all(file->get(), text, path);
}

Result<void> attach(int mount, const std::string& path) {
  if (::move_mount(mount, "", AT_FDCWD, path.c_str(), MOVE_MOUNT_F_EMPTY_PATH) < 0) {
    return sys::from_errno("attach a mount at " + path, errno);
  }
  return {};
}

Result<void> mount_tmpfs(const std::string& path, const std::string& options) {
  if (::mount("none", path.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) < 0) {
    return sys::from_errno("mount tmpfs on " + path, errno);
  }
  return {};
}

// Links of the image are followed inside the root, which `..` does not leave.
Result<UniqueFd> open_in(int root, const std::string& path) {
  auto directory = sys::openat2(root, path, O_PATH | O_DIRECTORY, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
  if (!directory) return with_context("root of the sandbox", directory.error());
  return directory;
}

// With the directories above it. Returns the last one.
Result<UniqueFd> make_directory_in(int root, const std::string& path) {
  std::filesystem::path so_far = "/";
  auto directory = open_in(root, "/");
  for (const auto& name : std::filesystem::path(path).relative_path()) {
    if (!directory) break;
    if (name.empty()) continue;
    so_far /= name;
    auto next = open_in(root, so_far.string());
    if (!next && next.error().sys_errno == ENOENT) {
      if (::mkdirat(directory->get(), name.c_str(), 0755) < 0) return sys::from_errno("make directory " + path, errno);
      next = open_in(root, so_far.string());
    }
    directory = std::move(next);
  }
  return directory;
}

// A missing mount point is made here and not by the runtime: as root of the sandbox, and while the root can be written.
// An existing mount point is left as it is; if a link leads nowhere, the runtime decides.
Result<void> make_mount_point(int root, const std::string& path, bool is_directory) {
  if (is_directory) {
    auto made = make_directory_in(root, path);
    return made ? Result<void>() : with_context("mount point " + path, made.error());
  }
  const std::filesystem::path target(path);
  auto parent = make_directory_in(root, target.parent_path().string());
  if (!parent) return with_context("mount point " + path, parent.error());
  const UniqueFd made(
      ::openat(parent->get(), target.filename().c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644));
  if (!made && errno != EEXIST) return sys::from_errno("mount point " + path, errno);
  return {};
}

Result<void> attach_plan(LaunchPlan& plan, int root, Bundle& bundle) {
  int number = 0;
  const auto next_place = [&] { return kPlace + "/mount" + std::to_string(number++); };
  const std::pair<const char*, const std::string*> files[] = {
      {"/hosts", &plan.etc_hosts}, {"/resolv.conf", &plan.etc_resolv_conf}, {"/hostname", &plan.etc_hostname}};
  for (const auto& [name, text] : files) {
    if (text->empty()) continue;
    if (auto made = make_file(kPlace + name, *text); !made) return made;
    const std::string target = std::string("/etc") + name;
    if (auto made = make_mount_point(root, target, false); !made) return made;
    bundle.binds.push_back({kPlace + name, target});
  }
  for (const PreparedMount& mount : plan.mounts) {
    if (mount.read_only) {
      auto set = kernel::set_mount_attributes(mount.mount.get(), MOUNT_ATTR_RDONLY, true);
      if (!set) return with_context("mount " + mount.target, set.error());
    }
    const std::string place = next_place();
    if (auto made = mount.is_directory ? make_directory(place) : make_file(place, ""); !made) return made;
    if (auto done = attach(mount.mount.get(), place); !done) return done;
    if (auto made = make_mount_point(root, mount.target, mount.is_directory); !made) return made;
    bundle.binds.push_back({place, mount.target, mount.read_only});
  }
  return {};
}

// One bind of a directory for any number of files: each bind of its own costs gVisor a connection to its file server.
Result<void> attach_cgroup_files(const CgroupPlan& cgroup, int root, Bundle& bundle) {
  if (cgroup.stat_files.empty()) return {};
  const std::string place = kPlace + "/cgroup";
  if (auto made = make_directory(place); !made) return made;
  for (const auto& [name, mount] : cgroup.stat_files) {
    const std::string file = place + "/" + name;
    if (auto made = make_file(file, ""); !made) return made;
    if (auto done = attach(mount.get(), file); !done) return done;
  }
  if (auto made = make_mount_point(root, kOciCgroupDirectory, true); !made) return made;
  bundle.binds.push_back({place, kOciCgroupDirectory, true});
  return {};
}

}  // namespace

Result<UniqueFd> mount_bundle_root(const LaunchPlan& plan) {
  if (auto made = make_usr_directories(plan.root); !made) return Failure(made.error());
  auto empty = kernel::make_empty_mount_namespace();
  if (!empty) return empty;
  const kernel::FileOwner owner(plan.id_base);
  auto overlays = prepare_root_overlays(plan.root, plan.userns);
  if (!overlays) return Failure(overlays.error());
  return std::async(std::launch::async,
                    [&] {
                      return mount_in_empty_namespace(*overlays, empty->get(), plan.id_base,
                                                      layers_of(plan.root).upper);
                    })
      .get();
}

Result<Bundle> enter_bundle_namespace(LaunchPlan& plan, int root) {
  if (::unshare(CLONE_NEWNS) < 0) return sys::from_errno("unshare the mount namespace", errno);
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0) {
    return sys::from_errno("make mounts private", errno);
  }
  ::umask(0);
  Bundle out;
  out.root = kPlace + "/root";
  const std::string proc = kPlace + "/proc";
  if (auto done = mount_tmpfs(kPlace, "mode=755,size=4m"); !done) return Failure(done.error());
  for (const std::string& directory : {out.root, proc}) {
    if (auto made = make_directory(directory); !made) return Failure(made.error());
  }
  if (::mount("proc", proc.c_str(), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) < 0) {
    return sys::from_errno("mount " + proc, errno);
  }
  if (auto done = mount_tmpfs("/proc/sys/net", "mode=755,size=4k"); !done) return Failure(done.error());
  if (auto done = attach(root, out.root); !done) return Failure(done.error());
  {
    const kernel::FileOwner owner(plan.id_base);
    if (auto made = make_directory_in(root, plan.cwd); !made) return Failure(made.error());
    // gVisor covers an empty /tmp with memory of its own unless something is mounted there; then it would be missing in
    // snapshots.
    struct stat st{};
    if (::lstat((out.root + "/tmp").c_str(), &st) == 0 && S_ISDIR(st.st_mode)) {
      out.binds.push_back({out.root + "/tmp", "/tmp"});
    }
    if (auto attached = attach_plan(plan, root, out); !attached) return Failure(attached.error());
    if (auto attached = attach_cgroup_files(plan.cgroup, root, out); !attached) return Failure(attached.error());
  }
  // Not by the runtime: in a user namespace it cannot, since it would take back flags that are locked.
  if (plan.read_only_root) {
    auto set = kernel::set_mount_attributes(root, MOUNT_ATTR_RDONLY, true);
    if (!set) return with_context("make the root read-only", set.error());
  }
  ::umask(022);
  return out;
}

}  // namespace osb::sandboxd
