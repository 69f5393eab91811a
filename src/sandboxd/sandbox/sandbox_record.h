#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/native.h"
#include "base/error.h"
#include "image/digest.h"
#include "kernel/process_exit.h"
#include "sandboxd/policy/policy_record.h"

namespace osb::sandboxd {

// Everything about a sandbox that has to survive this process. It is written before the first thing is made for the
// sandbox and again when its process exists; leftovers of a crash in between are found by the sandbox's id: directory,
// cgroup and socket are named after it, all else dies with its processes.
struct SandboxRecord {
  api::native::CreateSandbox spec;    // without the login and the network policy
  api::native::SandboxStatus status;  // state, token, address, ports, times

  std::optional<PolicyRecord> network_policy;      // its token is the status's
  std::optional<unsigned> slot;                    // of the pool
  std::optional<kernel::ProcessIdentity> process;  // PID 1; absent: not started
  std::vector<image::Digest> layers;               // of the image, lowest first; none for `host`
  std::vector<std::string> snapshots;              // whose layers lie above, lowest first
  std::string image_config;                        // JSON, for snapshots
  std::vector<std::string> volumes;                // named ones in use
  std::vector<std::string> volumes_to_delete;      // of those
  bool removing = false;                           // asked for: finish it after a crash
  std::string native_class;                        // of SandboxConfig::classes; not stored: only the launch needs it
};

// Not synced to disk: a sandbox does not survive what could lose it (the host's end). A reader sees the old record or
// the new one.
Result<void> save_record(const std::string& directory, const SandboxRecord& record);
// Code::NotFound: there is none. Code::InvalidRequest: it cannot be read.
Result<SandboxRecord> load_record(const std::string& directory);

}  // namespace osb::sandboxd
