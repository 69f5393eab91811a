#include <cerrno>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "sandboxd/launch/launch_child.h"
#include "sys/clone.h"
#include "sys/openat2.h"

namespace osb::sandboxd {

using sys::raw;

namespace {

constexpr unsigned long kPlain = MS_NOSUID | MS_NODEV | MS_NOEXEC;

struct Node {
  const char* path;
  mode_t mode;
  unsigned major, minor;
};
constexpr Node kNodes[] = {
    {"/mnt/dev/null", S_IFCHR | 0666, 1, 3},    {"/mnt/dev/zero", S_IFCHR | 0666, 1, 5},
    {"/mnt/dev/full", S_IFCHR | 0666, 1, 7},    {"/mnt/dev/random", S_IFCHR | 0666, 1, 8},
    {"/mnt/dev/urandom", S_IFCHR | 0666, 1, 9}, {"/mnt/dev/tty", S_IFCHR | 0666, 5, 0},
};

constexpr const char* kDirectories[] = {"/mnt/dev", "/mnt/dev/pts", "/mnt/dev/shm", "/mnt/dev/mqueue", "/mnt/empty"};

struct Link {
  const char* to;
  const char* path;
};
constexpr Link kLinks[] = {
    {"/proc/self/fd", "/mnt/dev/fd"},       {"/proc/self/fd/0", "/mnt/dev/stdin"},
    {"/proc/self/fd/1", "/mnt/dev/stdout"}, {"/proc/self/fd/2", "/mnt/dev/stderr"},
    {"pts/ptmx", "/mnt/dev/ptmx"},
};

OSB_IN_CHILD void begin(ChildPlan& plan, const char* doing, const char* thing = "") {
  plan.doing = doing;
  plan.thing = thing;
}

OSB_IN_CHILD int check(ChildPlan& plan, long result) {
  if (result < 0) fail_in_child(plan);
  return static_cast<int>(result);
}

OSB_IN_CHILD int clone_of(ChildPlan& plan, int dir, const char* path) {
  return check(plan, raw(SYS_open_tree, dir, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
}

OSB_IN_CHILD void make_read_only(ChildPlan& plan, int mount, const char* path) {
  struct mount_attr attr{};
  attr.attr_set = MOUNT_ATTR_RDONLY;
  check(plan, raw(SYS_mount_setattr, mount, path, AT_EMPTY_PATH, &attr, sizeof attr));
}

OSB_IN_CHILD void attach(ChildPlan& plan, int mount, int target) {
  check(plan, raw(SYS_move_mount, mount, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH));
}

OSB_IN_CHILD void attach_at(ChildPlan& plan, int mount, const char* path) {
  check(plan, raw(SYS_move_mount, mount, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH));
}

// Makes the directories of `path` that are missing. Returns the last one; -1 and errno.
OSB_IN_CHILD int make_directories(char* path) {
  int directory = open_in_root("/", O_PATH | O_DIRECTORY);
  for (std::size_t at = 0; directory >= 0;) {
    while (path[at] == '/') ++at;
    if (path[at] == '\0') return directory;
    const char* name = path + at;
    while (path[at] != '\0' && path[at] != '/') ++at;
    const char end = path[at];
    path[at] = '\0';
    int next = open_in_root(path, O_PATH | O_DIRECTORY);
    // An entry that exists and cannot be opened is a link that leads nowhere: an error.
    if (next < 0 && errno == ENOENT && (raw(SYS_mkdirat, directory, name, 0755) == 0 || errno == EEXIST)) {
      next = open_in_root(path, O_PATH | O_DIRECTORY);
    }
    path[at] = end;
    const int saved = errno;
    raw(SYS_close, directory);
    errno = saved;
    directory = next;
  }
  return -1;
}

// Splits "/a/b/c": the directory /a/b, made if missing, and "c".
OSB_IN_CHILD int make_parent(char* path, const char*& name) {
  std::size_t slash = 0;
  for (std::size_t i = 0; path[i] != '\0'; ++i) {
    if (path[i] == '/') slash = i;
  }
  name = path + slash + 1;
  path[slash] = '\0';
  const int parent = make_directories(path);
  path[slash] = '/';
  return parent;
}

// The place for a mount, made if it is missing. A link that leads nowhere (resolv.conf in many images) is itself
// mounted over by a file.
OSB_IN_CHILD int open_target(ChildPlan& plan, char* path, bool is_directory) {
  const int found = open_in_root(path, O_PATH);
  if (found >= 0) return found;
  if (errno != ENOENT) fail_in_child(plan);
  if (is_directory) return check(plan, make_directories(path));
  const char* name = nullptr;
  const int parent = check(plan, make_parent(path, name));
  const long made = raw(SYS_openat, parent, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (made < 0 && errno != EEXIST) fail_in_child(plan);
  const long target = raw(SYS_openat, parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
  raw(SYS_close, made);
  raw(SYS_close, parent);
  return check(plan, target);
}

// For the kernel's own directories: no link may stand in their place.
OSB_IN_CHILD void require_directory(ChildPlan& plan, const char* path) {
  constexpr int kFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  long fd = raw(SYS_openat, AT_FDCWD, path, kFlags, 0);
  if (fd < 0 && errno == ENOENT && raw(SYS_mkdirat, AT_FDCWD, path, 0755) == 0) {
    fd = raw(SYS_openat, AT_FDCWD, path, kFlags, 0);
  }
  raw(SYS_close, check(plan, fd));
}

// One tmpfs for all the small things: /dev, the files of /etc, the empty directory, the directory of cgroups. Its
// parts are mounted one by one, it itself is never seen.
OSB_IN_CHILD void fill_scratch(ChildPlan& plan) {
  begin(plan, "mount tmpfs for", "/dev");
  check(plan, raw(SYS_mount, "dev", "/mnt", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=4m,nr_inodes=4096"));
  for (const char* directory : kDirectories) check(plan, raw(SYS_mkdirat, AT_FDCWD, directory, 0755));
  for (const Node& node : kNodes) {
    check(plan, raw(SYS_mknodat, AT_FDCWD, node.path, node.mode, makedev(node.major, node.minor)));
  }
  for (const Link& link : kLinks) check(plan, raw(SYS_symlinkat, link.to, AT_FDCWD, link.path));
  for (std::size_t i = 0; i < plan.etc_files.count; ++i) {
    ChildFile& file = plan.etc_files.items[i];
    begin(plan, "make", file.target);
    file.file = check(plan, raw(SYS_openat, AT_FDCWD, file.scratch, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
  }
  for (std::size_t i = 0; i < plan.cgroups.count; ++i) {
    if (plan.cgroups.items[i].scratch == nullptr) continue;
    begin(plan, "make", plan.cgroups.items[i].target);
    if (i == 0) check(plan, raw(SYS_mkdirat, AT_FDCWD, "/mnt/cgroup", 0755));
    check(plan, raw(SYS_mkdirat, AT_FDCWD, plan.cgroups.items[i].scratch, 0755));
  }
}

OSB_IN_CHILD void enter_root(ChildPlan& plan) {
  // First /usr, whose layer lies in the root's: the other way round the kernel warns of a directory that is in use.
  if (plan.usr != nullptr) {
    begin(plan, "mount the overlay of", "/usr");
    check(plan, plan.usr->mount_in_child("/usr"));
  }
  begin(plan, "mount the overlay of", plan.upper);
  check(plan, plan.root->mount_in_child("/root"));
  if (plan.usr != nullptr) {
    begin(plan, "move the overlay to", "/usr");
    const int target = check(plan, raw(SYS_openat, AT_FDCWD, "/root/usr", O_PATH | O_NOFOLLOW | O_CLOEXEC, 0));
    check(plan, raw(SYS_move_mount, AT_FDCWD, "/usr", target, "", MOVE_MOUNT_T_EMPTY_PATH));
    raw(SYS_close, target);
  }
  begin(plan, "pivot_root");
  check(plan, raw(SYS_chdir, "/root"));
  check(plan, raw(SYS_pivot_root, ".", "."));
  check(plan, raw(SYS_umount2, ".", MNT_DETACH));
}

OSB_IN_CHILD void mount_dev_and_sys(ChildPlan& plan, int dev) {
  begin(plan, "mount", "/dev");
  require_directory(plan, "/dev");
  attach_at(plan, dev, "/dev");
  begin(plan, "mount", "/dev/pts");
  check(plan, raw(SYS_mount, "devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, plan.devpts_options));
  begin(plan, "mount", "/dev/shm");
  check(plan, raw(SYS_mount, "shm", "/dev/shm", "tmpfs", kPlain, plan.shm_options));
  begin(plan, "mount", "/dev/mqueue");
  if (raw(SYS_mount, "mqueue", "/dev/mqueue", "mqueue", kPlain, nullptr) < 0 && errno != ENODEV) fail_in_child(plan);
  begin(plan, "mount", "/sys");
  require_directory(plan, "/sys");
  check(plan, raw(SYS_mount, "sysfs", "/sys", "sysfs", kPlain | MS_RDONLY, nullptr));
  begin(plan, "mount", "/proc");
  require_directory(plan, "/proc");
}

// In /proc, or everywhere else.
OSB_IN_CHILD void hide_kernel_files(ChildPlan& plan, bool in_proc) {
  for (std::size_t i = 0; i < plan.masks.count; ++i) {
    const ChildMask& mask = plan.masks.items[i];
    if (mask.in_proc != in_proc) continue;
    begin(plan, mask.kind == ChildMask::ReadOnly ? "make read-only" : "mask", mask.path);
    if (mask.kind == ChildMask::NullFile) {
      check(plan, raw(SYS_mount, "/dev/null", mask.path, nullptr, MS_BIND, nullptr));
      continue;
    }
    int& empty = plan.empty_directories[i];
    const int mount = mask.kind == ChildMask::ReadOnly ? clone_of(plan, AT_FDCWD, mask.path) : empty;
    make_read_only(plan, mount, "");
    attach_at(plan, mount, mask.path);
    raw(SYS_close, mount);
    empty = -1;
  }
}

OSB_IN_CHILD void make_devices(ChildPlan& plan) {
  for (std::size_t i = 0; i < plan.devices.count; ++i) {
    const ChildDevice& device = plan.devices.items[i];
    begin(plan, "make device", device.path);
    const char* name = nullptr;
    const int parent = check(plan, make_parent(device.path, name));
    check(plan, raw(SYS_mknodat, parent, name, device.mode, device.device));
    raw(SYS_close, parent);
  }
}

}  // namespace

OSB_IN_CHILD int open_in_root(const char* path, int flags) {
  return sys::try_openat2(AT_FDCWD, path, flags, RESOLVE_NO_MAGICLINKS);
}

OSB_IN_CHILD void build_child_stage(ChildPlan& plan) {
  fill_scratch(plan);
  begin(plan, "prepare", "/dev");
  const int dev = clone_of(plan, AT_FDCWD, "/mnt/dev");
  int files[kEtcFiles];
  for (std::size_t i = 0; i < plan.etc_files.count; ++i) {
    files[i] = clone_of(plan, AT_FDCWD, plan.etc_files.items[i].scratch);
  }
  for (std::size_t i = 0; i < plan.masks.count; ++i) {
    const bool empty = plan.masks.items[i].kind == ChildMask::EmptyDirectory;
    plan.empty_directories[i] = empty ? clone_of(plan, AT_FDCWD, "/mnt/empty") : -1;
  }
  const bool v1 = plan.cgroups.count != 0 && plan.cgroups.items[0].scratch != nullptr;
  const int cgroup_directory = v1 ? clone_of(plan, AT_FDCWD, "/mnt/cgroup") : -1;

  enter_root(plan);
  mount_dev_and_sys(plan, dev);
  hide_kernel_files(plan, false);
  begin(plan, "mount", "/sys/fs/cgroup");
  if (v1) {
    make_read_only(plan, cgroup_directory, "");
    attach_at(plan, cgroup_directory, "/sys/fs/cgroup");
  }
  for (std::size_t i = 0; i < plan.etc_files.count; ++i) {
    begin(plan, "mount", plan.etc_files.items[i].target);
    attach(plan, files[i], open_target(plan, plan.etc_files.items[i].target, false));
  }
}

OSB_IN_CHILD void finish_child_root(ChildPlan& plan) {
  for (std::size_t i = 0; i < plan.etc_files.count; ++i) {
    const ChildFile& file = plan.etc_files.items[i];
    begin(plan, "write", file.target);
    for (std::size_t done = 0; done < file.size;) {
      done += static_cast<std::size_t>(check(plan, raw(SYS_write, file.file, file.text + done, file.size - done)));
    }
  }
  begin(plan, "mount", "/proc");
  check(plan, raw(SYS_mount, "proc", "/proc", "proc", kPlain, nullptr));
  make_devices(plan);
  hide_kernel_files(plan, true);
  for (std::size_t i = 0; i < plan.cgroups.count; ++i) {
    begin(plan, "mount", plan.cgroups.items[i].target);
    attach_at(plan, plan.cgroups.items[i].mount, plan.cgroups.items[i].target);
  }
  for (std::size_t i = 0; i < plan.mounts.count; ++i) {
    begin(plan, "mount", plan.mounts.items[i].target);
    attach(plan, plan.mounts.items[i].mount,
           open_target(plan, plan.mounts.items[i].target, plan.mounts.items[i].is_directory));
  }
  begin(plan, "make directory", plan.cwd);
  raw(SYS_close, check(plan, make_directories(plan.cwd)));
  if (plan.read_only_root) {
    begin(plan, "make the root read-only");
    make_read_only(plan, AT_FDCWD, "/");
    if (plan.has_usr) make_read_only(plan, AT_FDCWD, "/usr");
  }
}

}  // namespace osb::sandboxd
