#pragma once

#include <cstdint>
#include <functional>
#include <linux/filter.h>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "sandboxd/disk/disk_trees.h"
#include "sandboxd/network/bandwidth.h"
#include "sandboxd/oci/oci_runtime.h"
#include "sandboxd/sandbox/ceilings.h"
#include "sys/disk_reserve.h"

namespace osb::sandboxd {

// A class of sandboxes of our own launch, with a wall more than the others.
struct NativeClass {
  std::string seccomp_file;                                      // a profile behind the one that all sandboxes have
  std::shared_ptr<const std::vector<sock_filter>> seccomp = {};  // compiled at start
};

// Settings that all sandboxes of a host share, and the names of their files:
//
//   <disk>/sandboxes/<id>/record.json, and its tree: upper/ work/ run/{entrypoint.log,exit.json,execd.log}
//   <disk>/ready/           directories of sandboxes to come (ReadyDirectories, ReadyRoots)
//   <disk>/trash/           directories that are being deleted; emptied at start
//   <state>/host/<boot id>/ skeleton of `host` sandboxes; beside it masks (HostMask)
//   <state>/mount-points/   the lowest layer of all others
//   <run>/execd/<id>.sock   execd's socket
//
// <disk> is <state> or the directory of WritableDisk. The tree is <id>/ itself, or <id>/tree/ where trees have limits.
// A sandbox of an OCI runtime has no socket. It has oci/ for the bundle, run/exit/ for the exit record, and
// <run>/oci/<id>/ for the runtime's own state.
struct SandboxConfig {
  std::string state_directory = "/var/lib/opensandbox";  // 0700
  std::string disk_directory;                            // for all that sandboxes write; empty: state_directory
  std::string run_directory = "/run/opensandbox";        // sockets; 0750, of `group`
  gid_t group = 0;                                       // may use the sockets besides root
  std::string execd;                                     // the program
  bool allow_host_network = false;
  bool allow_host_image = true;
  std::vector<std::string> dns;
  bool policies_go_through_proxy = false;      // creates with a network policy need interception
  std::string no_policies;                     // why creates with a network policy are refused; empty: they are not
  std::string exec_label;                      // SELinux context, or "exec PROFILE" for AppArmor; empty: none
  bool core_scheduling = false;                // no two sandboxes on the threads of one core
  std::map<std::string, OciProgram> runtimes;  // besides our own, which is "native"
  std::map<std::string, NativeClass> classes;  // of our own, by the names that requests have for them
  std::string default_runtime = "native";
  std::uint64_t default_pids = 4096;
  std::uint64_t default_shm_bytes = 64 << 20;
  DiskTrees trees;                       // below disk_directory
  std::uint64_t default_disk_bytes = 0;  // 0: no limit. Anything else needs trees with limits
  Ceilings ceilings;                     // derived, as apps/sandboxd does
  Bandwidth default_bandwidth;           // of requests that name none
  Bandwidth max_bandwidth;               // 0: no limit
  sys::DiskReserve reserve;              // creates and snapshots leave it free
  // Called with the name of each step that has just been done: tests end the process there.
  std::function<void(std::string_view step)> after_step;

  const std::string& disk() const { return disk_directory.empty() ? state_directory : disk_directory; }
  std::string directory(const std::string& id) const { return disk() + "/sandboxes/" + id; }
  std::string tree(const std::string& id) const { return directory(id) + trees.below_directory(); }
  std::string run_file(const std::string& id, const char* name) const { return tree(id) + "/run/" + name; }
  std::string exit_file(const std::string& id, const std::string& runtime) const {
    return run_file(id, runtime.empty() ? "exit.json" : "exit/exit.json");
  }
  std::string socket(const std::string& id) const { return run_directory + "/execd/" + id + ".sock"; }
  void step(std::string_view name) const {
    if (after_step) after_step(name);
  }
};

}  // namespace osb::sandboxd
