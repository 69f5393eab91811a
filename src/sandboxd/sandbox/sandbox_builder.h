#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "async/blocking_pool.h"
#include "base/error.h"
#include "base/unique_fd.h"
#include "kernel/limited_cgroup.h"
#include "sandboxd/image/image_service.h"
#include "sandboxd/network/firewall.h"
#include "sandboxd/network/slot_pool.h"
#include "sandboxd/oci/oci_runtime.h"
#include "sandboxd/sandbox/ready_directories.h"
#include "sandboxd/sandbox/ready_roots.h"
#include "sandboxd/sandbox/sandbox_record.h"
#include "sandboxd/snapshot/snapshot_store.h"
#include "sandboxd/volume/volume_store.h"

namespace osb::sandboxd {

struct SandboxConfig {
  std::string state_directory = "/var/lib/opensandbox";  // 0700
  std::string run_directory = "/run/opensandbox";        // sockets; 0750, of `group`
  gid_t group = 0;                                       // who may use the sockets besides root
  std::string execd;                                     // the program
  bool allow_host_network = false;
  std::vector<std::string> dns;
  std::string exec_label;                      // SELinux context, or "exec PROFILE" for AppArmor; empty: none
  std::map<std::string, OciProgram> runtimes;  // besides our own, which is "native"
  std::string default_runtime = "native";
  std::uint64_t default_pids = 4096;
  std::uint64_t default_shm_bytes = 64 << 20;
  std::uint64_t default_disk_bytes = 0;  // 0: no limit. Anything else needs project quotas
  // Tests end the process here: called with the name of each step that has just been done.
  std::function<void(std::string_view step)> after_step;
};

// What a living sandbox holds of the host. Everything is optional: tear_down() takes what there is.
struct LiveSandbox {
  std::optional<Slot> slot;
  std::optional<kernel::LimitedCgroup> cgroup;
  UniqueFd pidfd;
  UniqueFd log_watch;             // inotify of execd.log, where execd cannot be handed a listening socket
  std::shared_ptr<void> volumes;  // keeps named volumes from being removed
  // Made for it: they go if it comes to nothing.
  std::vector<std::string> new_volumes;
};

// The layers a sandbox stands on, found and held.
struct SandboxBase {
  ResolvedImage image;
  std::vector<std::string> snapshot_layers;  // top first, above the image's
};

struct NewCgroup;
class CgroupToCome;

// The blocking half of a sandbox's life: from a record to a running process and back. All calls may come from any
// thread, several at a time, for different sandboxes. The parts outlive it.
//
//   <state>/sandboxes/<id>/record.json upper/ work/ run/{entrypoint.log,exit.json,execd.log}
//   <state>/ready/          directories of sandboxes to come (ReadyDirectories, ReadyRoots)
//   <state>/trash/          what is being deleted; emptied by open()
//   <state>/host/<boot id>/ skeleton of `host` sandboxes
//   <state>/mount-points/   the lowest layer of all others
//   <run>/execd/<id>.sock   where execd answers
//
// Those of an OCI runtime have no socket, oci/ for the bundle, run/exit/ for the exit record, and <run>/oci/<id>/ for
// what the runtime keeps.
class SandboxBuilder {
 public:
  struct Parts {
    SlotPool& slots;
    Firewall& firewall;
    kernel::LimitedCgroups& cgroups;
    VolumeStore& volumes;
    BlockingPool& pool;  // for what can be done beside each other
  };
  // Makes the directories.
  static Result<std::unique_ptr<SandboxBuilder>> open(SandboxConfig config, Parts parts);

  // What a request's name of a runtime means: "" is our own launch. Code::InvalidRequest names the ones there are.
  Result<std::string> resolve_runtime(const std::string& name) const;

  // Starts execd. Fills in the record's slot, process, address, ports and volumes, and keeps it on disk. Whatever
  // fails, nothing is left.
  Result<LiveSandbox> build(SandboxRecord& record, const SandboxBase& base) const;

  // Makes what the next ones need, as far as it is the same for all: what comes after is as quick as the first.
  void prepare() const {
    ready_->refill();
    roots_->refill();
  }

  // What can be found again of a sandbox that outlived the daemon. Code::NotFound: its process has ended. Before the
  // pool has been started.
  Result<LiveSandbox> adopt(const SandboxRecord& record) const;

  // While a sandbox is paused, the host refuses new connections to its address: nobody inside would answer them. Open
  // connections are left alone.
  Result<void> refuse_connections(const LiveSandbox& live) const;
  Result<void> accept_connections(const LiveSandbox& live) const;

  // Ends all processes and gives back what `live` holds. The directory stays, for its logs. Never fails: what resists
  // is logged, and found again by sweep().
  void tear_down(SandboxRecord& record, LiveSandbox live) const;
  // The directory, the socket and volumes that go with the sandbox. Returns when the directory has another name; its
  // files go after that (empty_trash).
  void erase(const SandboxRecord& record) const;
  void empty_trash() const;

  // At start: ends and removes cgroups and sockets of ours that none of `living` owns.
  void sweep(const std::vector<std::string>& living) const;
  // The same for one sandbox that is known to be nobody's.
  void sweep_one(const std::string& id) const;
  Result<kernel::LimitedCgroup> cgroup_of(const std::string& id) const { return parts_.cgroups.open_existing(id); }

  std::string directory(const std::string& id) const { return config_.state_directory + "/sandboxes/" + id; }
  std::string run_file(const std::string& id, const char* name) const { return directory(id) + "/run/" + name; }
  std::string socket(const std::string& id) const { return config_.run_directory + "/execd/" + id + ".sock"; }
  std::string exit_file(const SandboxRecord& record) const {
    return run_file(record.spec.id, record.spec.runtime.empty() ? "exit.json" : "exit/exit.json");
  }
  std::vector<std::string> ids() const;  // that have a directory
  const SandboxConfig& config() const { return config_; }
  void step(std::string_view name) const {
    if (config_.after_step) config_.after_step(name);
  }

 private:
  SandboxBuilder(SandboxConfig config, Parts parts) : config_(std::move(config)), parts_(parts) {}
  Result<void> build_into(LiveSandbox& live, SandboxRecord& record, const SandboxBase& base) const;
  Result<void> make_directories(const api::native::CreateSandbox& spec) const;
  Result<void> note_volumes_to_come(SandboxRecord& record, std::span<const VolumeSpec> volumes) const;
  Result<std::vector<std::string>> layers_of(const SandboxBase& base) const;  // top first
  bool is_ordinary(const api::native::CreateSandbox& spec) const;             // a ReadyRoot will do
  Result<NewCgroup> make_cgroup(const std::string& id, const kernel::Limits& limits) const;
  Result<UniqueFd> listen(const std::string& id) const;
  // The last part of build_into. `owner` is the host's id of the sandbox's user.
  Result<void> start_native(LiveSandbox& live, SandboxRecord& record, LaunchPlan plan, const image::ImageConfig& image,
                            uid_t owner, CgroupToCome& cgroup) const;
  Result<void> start_with_runtime(LiveSandbox& live, SandboxRecord& record, LaunchPlan plan,
                                  const image::ImageConfig& image, uid_t owner, CgroupToCome& cgroup) const;
  void remove_from_runtime(const SandboxRecord& record) const;

  SandboxConfig config_;
  Parts parts_;
  std::unique_ptr<ReadyDirectories> ready_;
  std::unique_ptr<ReadyRoots> roots_;
  UniqueFd execd_;
  std::string skeleton_;
  std::string mount_points_;
  std::map<std::string, std::unique_ptr<OciRuntime>> runtimes_;
};

}  // namespace osb::sandboxd
