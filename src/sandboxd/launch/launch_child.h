#pragma once

#include <cstddef>
#include <cstdint>
#include <linux/filter.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/error.h"
#include "kernel/mount_overlay.h"

namespace osb::sandboxd {

// The half of a launch that runs in the child, between clone and exec, in the parent's memory: it only reads and writes
// what is prepared here. The parent sleeps meanwhile, so all pointers go into objects on its stack.

// A mount to be attached in the new root. `target` is cut into pieces and put together again on the way.
struct ChildMount {
  int mount;
  char* target;
  bool is_directory;
};

struct ChildDevice {
  char* path;  // "/dev/.."
  mode_t mode;
  dev_t device;
};

// Their headers may be older than the kernel. The numbers are those of all architectures.
inline constexpr long kLandlockCreateRuleset = 444;
inline constexpr long kLandlockRestrictSelf = 446;

inline constexpr std::size_t kEtcFiles = 3;
struct ChildFile {
  const char* scratch;  // where it is made: "/mnt/hosts"
  char* target;
  const char* text;  // size 0: the image's own is seen
  std::size_t size;
  int file;  // open for writing, once it is mounted
};

struct ChildCgroup {
  const char* scratch;  // "/mnt/cgroup/memory"; null when /sys/fs/cgroup itself is the target
  const char* target;
  int mount;
};

inline constexpr std::size_t kMostMasks = 32;
struct ChildMask {
  const char* path;
  enum Kind { NullFile, EmptyDirectory, ReadOnly } kind;
  bool in_proc;
};

struct ChildLimit {
  int resource;
  struct rlimit limits;
};

struct ChildDescriptor {
  int target;
  int source;
};

template <typename T>
struct List {
  T* items = nullptr;
  std::size_t count = 0;
};

struct ChildPlan {
  // Where it stands: on failure the parent makes a sentence of it.
  const char* doing = "start";
  const char* thing = "";
  int error = 0;
  bool at_exec = false;

  // A stage that is there already, and its ipc namespace; -1: the child builds its own, from an empty namespace.
  int stage_mounts;
  int stage_ipc;
  int stage_socket;     // of run_stage_child
  int empty_namespace;  // kernel::make_empty_mount_namespace
  List<const int> v1_tasks;
  const char* oom_score_adj;  // null: leave it
  int netns;
  bool cgroup_namespace;
  const char* hostname;
  std::size_t hostname_size;

  const kernel::Overlay* root;
  const kernel::Overlay* usr;  // null: part of root
  bool has_usr;                // mounted here or in the stage
  const char* upper;           // of root, for errors
  List<ChildFile> etc_files;
  List<const ChildDevice> devices;
  const char* devpts_options;
  const char* shm_options;
  List<const ChildCgroup> cgroups;
  List<const ChildMask> masks;
  int empty_directories[kMostMasks];  // a mount for each mask that wants one and has not got it yet, else -1
  List<const ChildMount> mounts;
  bool read_only_root;

  const char* exec_label;  // null: none
  std::size_t exec_label_size;
  List<const ChildLimit> limits;
  int userns;
  int userns_sysctl;                 // /proc/sys/user of the host, by which every user namespace finds its own
  const char* most_user_namespaces;  // "0": none
  std::uint64_t capabilities;
  int last_capability;
  bool no_new_privileges;
  List<const gid_t> groups;
  uid_t uid;
  gid_t gid;
  char* cwd;
  List<ChildDescriptor> descriptors;  // source -1: /dev/null
  int first_free;                     // above all targets
  bool landlock;                      // the kernel has its scopes
  sock_fprog seccomp, class_seccomp;  // len 0: none
  bool core_scheduling;

  int program;
  char* const* argv;
  char* const* envp;
};

// For sys::vfork_child, with a ChildPlan. Does not return.
void run_launch_child(void* plan);

// The same for a stage. The child sends through `stage_socket`, in one message: the mount and the ipc namespace, the
// files of etc_files, and empty_directories without those that are -1.
void run_stage_child(void* plan);

// Used by both. From the empty mount namespace to a root that has everything but /proc, the contents of files, and
// what is mounted for this sandbox alone; then the rest. The child's files must belong to root inside
// (kernel::FileOwner), its umask be 0.
void build_child_stage(ChildPlan& plan);
void finish_child_root(ChildPlan& plan);

// In the parent, when such a child has ended without having done its work: a sentence about it.
Error error_of_child(const ChildPlan& plan);

// Says where the child stands, and ends it.
[[noreturn]] void fail_in_child(ChildPlan& plan);

// Once the new root is the only one: links and `..` lead nowhere else, and not through /proc to one of our descriptors.
// -1 and errno.
int open_in_root(const char* path, int flags);

}  // namespace osb::sandboxd
