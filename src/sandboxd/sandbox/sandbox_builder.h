#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sandboxd/image/image_service.h"
#include "sandboxd/launch/host_mask.h"
#include "sandboxd/sandbox/host_parts.h"
#include "sandboxd/sandbox/ready_directories.h"
#include "sandboxd/sandbox/ready_roots.h"
#include "sandboxd/sandbox/sandbox_config.h"
#include "sandboxd/sandbox/sandbox_launcher.h"
#include "sandboxd/sandbox/sandbox_record.h"
#include "sandboxd/sandbox/teardown.h"

namespace osb::sandboxd {

// The layers that a sandbox stands on, found and held.
struct SandboxBase {
  ResolvedImage image;
  std::vector<std::string> snapshot_layers = {};  // top first, above the image's
  std::vector<std::string> snapshots = {};        // ids of those, lowest first
};

// Makes sandboxes: from a record to a running process, or to one that an earlier daemon started. All calls block and
// may come from any thread, several at a time for different sandboxes.
class SandboxBuilder {
 public:
  // Makes the directories of `config`.
  static Result<std::unique_ptr<SandboxBuilder>> open(SandboxConfig config, HostParts parts);

  // Starts execd. Fills in the record's slot, process, address, ports and volumes, and keeps it on disk. A create that
  // fails leaves nothing.
  Result<LiveSandbox> build(SandboxRecord& record, const SandboxBase& base) const;

  // Makes directories and a root for the next sandboxes, so that their creates are quick.
  void prepare() const {
    directories_->refill();
    roots_->refill();
  }

  // Finds a sandbox that outlived its daemon. Code::NotFound: its process has ended. Before the slot pool is started.
  Result<LiveSandbox> adopt(const SandboxRecord& record) const;

  std::vector<std::string> ids() const;  // of all sandboxes that have a directory
  const SandboxConfig& config() const { return config_; }
  const HostParts& parts() const { return parts_; }
  const SandboxLauncher& launcher() const { return *launcher_; }
  const Teardown& teardown() const { return *teardown_; }

 private:
  SandboxBuilder(SandboxConfig config, HostParts parts) : config_(std::move(config)), parts_(std::move(parts)) {}
  Result<void> make_host_skeleton();
  HostFacts look_up(const api::native::CreateSandbox& spec, const SandboxBase& base) const;
  Result<std::vector<std::string>> layers_of(const SandboxBase& base) const;  // top first

  const SandboxConfig config_;
  const HostParts parts_;
  std::unique_ptr<ReadyDirectories> directories_;
  std::unique_ptr<ReadyRoots> roots_;
  std::optional<SandboxLauncher> launcher_;
  std::optional<Teardown> teardown_;
  std::unique_ptr<HostMask> mask_;  // of `host` sandboxes
  std::string skeleton_;            // of `host` sandboxes; empty: this host cannot have them
  std::string mount_points_;
};

}  // namespace osb::sandboxd
