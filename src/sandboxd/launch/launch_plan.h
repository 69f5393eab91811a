#pragma once

#include <array>
#include <cstdint>
#include <linux/filter.h>
#include <optional>
#include <span>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <utility>
#include <variant>
#include <vector>

#include "base/unique_fd.h"
#include "kernel/capabilities.h"

namespace osb::sandboxd {

// A sandbox, resolved down to descriptors, ids and paths: nothing in here is looked up by name any more, except layer
// directories. Descriptors without an owner (int) belong to the caller, who keeps them open during launch(). Mounts and
// directories must have been opened in the mount namespace sandboxd runs in.

// The root file system: an overlay, made for this sandbox and gone with it.
//
// Ids on disk are those inside: 0..65535, in all directories. The state directory that holds upper and work must be
// 0700, because a sandbox can leave setuid files of "root" there.
// `upper` may hold files from before; `work` must be empty and is used for one launch only: the overlay is volatile
// (no sync when it goes, fsync inside costs nothing), which the kernel remembers in there. Both on one file system that
// is no overlay.
struct LayersRoot {
  std::vector<std::string> lower;  // top first, at most 500
  std::string upper;
  std::string work;
};

// The `host` image: the host's /usr over a skeleton (build_host_skeleton), which is the last of `lower`.
// Layers above it are snapshots of `host` sandboxes. /usr is an overlay of its own, because an overlay does not cross
// mounts: host's /usr below, `upper`/usr above. So it can be written (pip install), and `upper` is the whole truth: a
// snapshot contains all changes, those of /usr too, and is a layer like any other. It does not contain the host's /usr:
// used on a host with other packages it shows theirs. File systems mounted below the host's /usr are not seen.
struct HostRoot {
  LayersRoot layers;
};

// A detached mount (open_tree with OPEN_TREE_CLONE, fsmount), and its mount point.
struct PreparedMount {
  UniqueFd mount;
  // Absolute, inside. Symbolic links of the image are followed inside the root, `..` does not lead out of it. A missing
  // mount point is made (it stays in `upper`). Not below /proc, /sys or /dev.
  std::string target;
  bool is_directory = true;
  bool read_only = false;  // the launch makes this mount read-only (mounts below it too); otherwise it leaves it alone
};

// A node in /dev that exists on the host (GPUs, /dev/fuse, /dev/net/tun). Owned by root inside.
struct DeviceNode {
  std::string name;  // below /dev: "nvidia0", "dri/renderD128"
  mode_t mode = S_IFCHR | 0666;
  dev_t device = 0;

  bool operator==(const DeviceNode&) const = default;
};

// Where the processes are accounted and limited (kernel::CgroupJoin).
struct CgroupPlan {
  int v2_directory = -1;      // born there; -1: stays in sandboxd's
  std::vector<int> v1_tasks;  // `tasks` files, open for writing
  // The contents of /sys/fs/cgroup, read-only: directories of the sandbox's cgroup, by name. {{"", v2 directory}} on a
  // v2 host; on others one per v1 controller ({"memory", ..}). Empty: nothing is there. With any, the cgroup namespace
  // is the sandbox's own, so that its cgroup is "/".
  std::vector<std::pair<std::string, int>> view;
  // Detached mounts of single files that tell what the cgroup uses, by the kernel's names: for OCI runtimes, whose
  // sandboxes see no `view` and inherit no descriptors.
  std::vector<std::pair<std::string, UniqueFd>> stat_files;
};

struct Ulimit {
  int resource = RLIMIT_NOFILE;
  struct rlimit limits{};

  bool operator==(const Ulimit& other) const {
    return resource == other.resource && limits.rlim_cur == other.limits.rlim_cur &&
           limits.rlim_max == other.limits.rlim_max;
  }
};

// As Docker's default, without mknod (a user namespace makes no device nodes) and net_raw (spoofing; ping works by
// unprivileged ICMP sockets where the image's ping uses them).
inline constexpr kernel::CapabilitySet kDefaultCapabilities =
    1ULL << 0 | 1ULL << 1 | 1ULL << 3 | 1ULL << 4 | 1ULL << 5 |  // chown dac_override fowner fsetid kill
    1ULL << 6 | 1ULL << 7 | 1ULL << 8 |                          // setgid setuid setpcap
    1ULL << 10 | 1ULL << 18 | 1ULL << 29 | 1ULL << 31;           // net_bind_service sys_chroot audit_write setfcap

// The mount and ipc namespace of one sandbox, unused, with every mount that does not depend on its request (build_stage
// in stage.h). Nothing else refers to them: they go with the descriptors.
struct Stage {
  UniqueFd mounts{};
  UniqueFd ipc{};
  std::array<UniqueFd, 3> etc_files;          // hosts, resolv.conf, hostname: mounted, and empty
  std::vector<UniqueFd> empty_directories{};  // for what is hidden in /proc
};

struct LaunchPlan {
  std::optional<Stage> stage;  // absent: launch() builds what it needs. With one, all three files of /etc are needed.
  std::variant<LayersRoot, HostRoot> root;
  bool read_only_root = false;  // mounts in it stay writable

  int userns = -1;            // ids 0..65535 inside are id_base.. here
  std::uint32_t id_base = 0;  // must be what the map of `userns` says
  int netns = -1;             // -1: the host's network
  CgroupPlan cgroup;

  std::vector<PreparedMount> mounts;  // parents before what lies below them
  std::uint64_t shm_bytes = 64 << 20;
  std::vector<DeviceNode> devices;

  std::string hostname;
  // Whole files, seen in /etc, writable by root inside, not part of `upper`. Empty: the image's own is seen.
  std::string etc_hosts;
  std::string etc_resolv_conf;
  std::string etc_hostname;

  uid_t uid = 0;  // inside, as the next two
  gid_t gid = 0;
  std::vector<gid_t> groups;
  // The sandbox's upper limit. A program of root has all of them, others gain them by setuid or file capabilities.
  kernel::CapabilitySet capabilities = kDefaultCapabilities;
  bool no_new_privileges = true;
  bool nested_user_namespaces = false;   // the seccomp program must allow them too
  std::span<const sock_filter> seccomp;  // empty: none. Must allow setgroups, setresgid, setresuid, chdir, execveat.
  std::span<const sock_filter> class_seccomp;  // likewise, behind the first; it must live as long as the launch
  bool core_scheduling = false;                // threads of other sandboxes do not share its cores
  std::string exec_label;                      // SELinux context, or "exec NAME" for AppArmor; empty: none
  std::vector<Ulimit> ulimits;                 // others are sandboxd's own
  std::optional<int> oom_score_adj;

  // The program, by descriptor (O_PATH or O_RDONLY, with write permission for root only): it need not exist as a file
  // inside. The file must be readable and executable by all.
  int program = -1;
  std::vector<std::string> argv;
  std::vector<std::string> env;  // "KEY=value", all of it
  std::string cwd = "/";         // made if it is missing
  // {number in the child, descriptor here}. 0 is /dev/null and 1 and 2 are `log` unless named; all else is closed.
  std::vector<std::pair<int, int>> fds;
  int log = -1;  // -1: /dev/null
};

}  // namespace osb::sandboxd
