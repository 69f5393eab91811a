#include "execd/isolated/session_root.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include "sys/openat2.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

// Covered first, in this process's copy of the mounts: all images have it, and no session needs the sandbox's own.
constexpr const char* kStage = "/proc";
constexpr const char* kStagedRoot = "/proc/root";

struct Setting {
  const char* name;
  std::string value;  // empty: a flag
};

Result<UniqueFd> new_filesystem(const char* type, const std::vector<Setting>& settings, unsigned attributes) {
  UniqueFd context(::fsopen(type, FSOPEN_CLOEXEC));
  if (!context) return sys::from_errno(std::string("fsopen ") + type, errno);
  for (const Setting& setting : settings) {
    const int rc = setting.value.empty()
                       ? ::fsconfig(context.get(), FSCONFIG_SET_FLAG, setting.name, nullptr, 0)
                       : ::fsconfig(context.get(), FSCONFIG_SET_STRING, setting.name, setting.value.c_str(), 0);
    if (rc < 0) return sys::from_errno(std::string(type) + " " + setting.name + "=" + setting.value, errno);
  }
  if (::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) < 0) {
    return sys::from_errno(std::string("make a file system of type ") + type, errno);
  }
  UniqueFd mount(::fsmount(context.get(), FSMOUNT_CLOEXEC, attributes));
  if (!mount) return sys::from_errno(std::string("mount a file system of type ") + type, errno);
  return mount;
}

Result<UniqueFd> new_tmpfs(const char* mode, std::uint64_t bytes) {
  return new_filesystem("tmpfs", {{"mode", mode}, {"size", std::to_string(bytes)}},
                        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

Result<void> make_read_only(int mount) {
  struct mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY;
  if (::mount_setattr(mount, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes, sizeof attributes) < 0) {
    return sys::from_errno("make a mount read-only", errno);
  }
  return {};
}

// With all mounts below it.
Result<UniqueFd> clone_tree(int directory, const std::string& path) {
  UniqueFd tree(::open_tree(directory, path.c_str(),
                            OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | (path.empty() ? AT_EMPTY_PATH : 0)));
  if (!tree) return sys::from_errno("clone the mount of " + path, errno);
  return tree;
}

Result<UniqueFd> open_strictly(const std::string& path) {
  UniqueFd found(sys::try_openat2(AT_FDCWD, path.c_str(), O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS));
  if (found) return found;
  auto failure = sys::from_errno("open " + path + (errno == ELOOP ? " (no link may be on the way to it)" : ""), errno);
  failure.error().code = Code::InvalidRequest;
  return failure;
}

class RootBuilder {
 public:
  explicit RootBuilder(const SessionSpec& spec) : spec_(spec) {}

  Result<std::vector<SessionLayer>> build(bool mount_proc) {
    for (const auto step : {&RootBuilder::detach, &RootBuilder::open_sources, &RootBuilder::stage_root}) {
      if (auto done = (this->*step)(); !done) return Failure(done.error());
    }
    if (auto done = mount_system(mount_proc); !done) return Failure(done.error());
    for (std::size_t i = 0; i < spec_.mounts.size(); ++i) {
      if (auto done = mount_one(i); !done) return with_context(spec_.mounts[i].path, done.error());
    }
    if (auto done = enter(); !done) return Failure(done.error());
    return std::move(layers_);
  }

 private:
  Result<void> detach() {
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0) {
      return sys::from_errno("detach the mounts from the sandbox's", errno);
    }
    return {};
  }

  // Before anything is covered.
  Result<void> open_sources() {
    for (const SessionMount& mount : spec_.mounts) {
      auto source = open_strictly(mount.source);
      if (!source) return Failure(source.error());
      if (mount.mode == SessionMount::Mode::Overlay) {
        sources_.push_back(std::move(*source));
        continue;
      }
      auto tree = clone_tree(source->get(), "");
      if (!tree) return with_context(mount.source, tree.error());
      sources_.push_back(std::move(*tree));
    }
    if (!spec_.private_tmp) {
      auto tmp = clone_tree(AT_FDCWD, "/tmp");
      if (tmp) shared_tmp_ = std::move(*tmp);
    }
    return {};
  }

  Result<void> stage_root() {
    auto root = clone_tree(AT_FDCWD, "/");
    if (!root) return Failure(root.error());
    if (auto done = make_read_only(root->get()); !done) return done;
    auto stage = new_tmpfs("700", spec_.upper_bytes);
    if (!stage) return Failure(stage.error());
    if (::move_mount(stage->get(), "", AT_FDCWD, kStage, MOVE_MOUNT_F_EMPTY_PATH) < 0) {
      return sys::from_errno("mount the stage", errno);
    }
    if (::mkdir(kStagedRoot, 0700) < 0) return sys::from_errno("mkdir root", errno);
    if (::move_mount(root->get(), "", AT_FDCWD, kStagedRoot, MOVE_MOUNT_F_EMPTY_PATH) < 0) {
      return sys::from_errno("mount the root", errno);
    }
    auto opened = sys::open_at(AT_FDCWD, kStagedRoot, O_PATH | O_DIRECTORY);
    if (!opened) return Failure(opened.error());
    root_ = std::move(*opened);
    return {};
  }

  Result<UniqueFd> target(const std::string& path) const {
    UniqueFd found(sys::try_openat2(root_.get(), path.c_str(), O_PATH | O_CLOEXEC, RESOLVE_IN_ROOT));
    if (!found) return sys::from_errno("open " + path, errno);
    return found;
  }

  Result<void> attach(int mount, const std::string& path) const {
    const auto place = target(path);
    if (!place) return Failure(place.error());
    if (::move_mount(mount, "", place->get(), "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0) {
      return sys::from_errno("mount at " + path, errno);
    }
    return {};
  }

  // Below a /tmp or /run of the session's own the directories of a mount are not there yet.
  Result<void> make_place(const std::string& path) const {
    for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
      const std::string part = path.substr(0, slash);
      if (!target(part)) {
        const std::size_t name = part.rfind('/') + 1;
        const auto parent = target(name > 1 ? part.substr(0, name - 1) : "/");
        if (!parent) return Failure(parent.error());
        if (::mkdirat(parent->get(), part.c_str() + name, 0755) < 0) return sys::from_errno("mkdir " + part, errno);
      }
      if (slash == std::string::npos) return {};
    }
  }

  // Where the image has no such directory, nothing is mounted.
  Result<void> attach_if_there(Result<UniqueFd> mount, const std::string& path) const {
    if (!target(path)) return {};
    if (!mount) return with_context(path, mount.error());
    return attach(mount->get(), path);
  }

  Result<void> mount_system(bool mount_proc) {
    if (auto done = shared_tmp_ ? attach(shared_tmp_.get(), "/tmp")
                                : attach_if_there(new_tmpfs("1777", spec_.upper_bytes), "/tmp");
        !done) {
      return done;
    }
    if (auto done = attach_if_there(new_tmpfs("755", spec_.upper_bytes), "/run"); !done) return done;
    if (auto done = attach_if_there(new_tmpfs("1777", spec_.upper_bytes), "/dev/shm"); !done) return done;
    constexpr unsigned kPlain = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
    // The terminals of the sandbox's other programs are not in it.
    if (auto done =
            attach_if_there(new_filesystem("devpts", {{"mode", "620"}, {"ptmxmode", "666"}}, kPlain), "/dev/pts");
        !done) {
      return done;
    }
    if (auto done = attach_if_there(new_filesystem("mqueue", {}, kPlain | MOUNT_ATTR_NODEV), "/dev/mqueue"); !done) {
      return done;
    }
    return mount_proc ? this->mount_proc() : Result<void>();
  }

  Result<void> mount_proc() {
    auto proc = new_filesystem("proc", {}, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (!proc) return Failure(proc.error());
    if (auto done = attach(proc->get(), "/proc"); !done) return done;
    for (const char* path : {"/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/sysrq-trigger"}) {
      const auto place = target(path);
      if (!place) continue;
      auto tree = clone_tree(place->get(), "");
      if (!tree) return Failure(tree.error());
      if (auto done = make_read_only(tree->get()); !done) return done;
      if (auto done = attach(tree->get(), path); !done) return done;
    }
    for (const char* path : {"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/latency_stats", "/proc/kmsg"}) {
      const auto null = target("/dev/null");
      if (!target(path) || !null) continue;
      auto tree = clone_tree(null->get(), "");
      if (!tree) return Failure(tree.error());
      if (auto done = attach(tree->get(), path); !done) return done;
    }
    return {};
  }

  Result<void> mount_one(std::size_t i) {
    const SessionMount& mount = spec_.mounts[i];
    if (auto made = make_place(mount.path); !made) return made;
    if (mount.mode == SessionMount::Mode::Overlay) return mount_overlay(i);
    if (mount.mode == SessionMount::Mode::ReadOnly) {
      if (auto done = make_read_only(sources_[i].get()); !done) return done;
    }
    return attach(sources_[i].get(), mount.path);
  }

  Result<void> mount_overlay(std::size_t i) {
    const SessionMount& mount = spec_.mounts[i];
    const std::string upper = std::string(kStage) + "/upper" + std::to_string(i);
    const std::string work = std::string(kStage) + "/work" + std::to_string(i);
    auto lower = sys::open_at(sources_[i].get(), ".", O_RDONLY | O_DIRECTORY);
    if (!lower) return Failure(lower.error());
    struct stat info{};
    if (::fstat(lower->get(), &info) < 0) return sys::from_errno("stat", errno);
    if (::mkdir(upper.c_str(), 0700) < 0 || ::mkdir(work.c_str(), 0700) < 0) return sys::from_errno("mkdir", errno);
    // The root of an overlay has the attributes of its upper directory.
    if (::chown(upper.c_str(), info.st_uid, info.st_gid) < 0 || ::chmod(upper.c_str(), info.st_mode & 07777) < 0) {
      return sys::from_errno("copy the owner and mode", errno);
    }
    // The lower directory by way of the working directory: its name may hold any byte, and was looked at already.
    if (::fchdir(lower->get()) < 0) return sys::from_errno("chdir", errno);
    auto overlay =
        new_filesystem("overlay", {{"lowerdir", "."}, {"upperdir", upper}, {"workdir", work}, {"userxattr", ""}},
                       MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (!overlay) return Failure(overlay.error());
    if (auto done = attach(overlay->get(), mount.path); !done) return done;
    if (!mount.persist) return {};
    auto changes = sys::open_at(AT_FDCWD, upper, O_RDONLY | O_DIRECTORY);
    if (!changes) return Failure(changes.error());
    layers_.push_back({mount.path, std::move(*changes), std::move(*lower)});
    return {};
  }

  Result<void> enter() const {
    if (::fchdir(root_.get()) < 0) return sys::from_errno("chdir to the root", errno);
    if (::syscall(SYS_pivot_root, ".", ".") < 0) return sys::from_errno("pivot_root", errno);
    if (::umount2(".", MNT_DETACH) < 0) return sys::from_errno("leave the sandbox's root", errno);
    if (::chdir("/") < 0) return sys::from_errno("chdir /", errno);
    return {};
  }

  const SessionSpec& spec_;
  std::vector<UniqueFd> sources_;  // by mount: a detached tree, or an overlay's lower directory
  UniqueFd shared_tmp_;
  UniqueFd root_;
  std::vector<SessionLayer> layers_;
};

}  // namespace

Result<std::vector<SessionLayer>> enter_session_root(const SessionSpec& spec, bool mount_proc) {
  return RootBuilder(spec).build(mount_proc);
}

}  // namespace osb::execd
