#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

#include "runtime/instance.h"

namespace osb::runtime {

// Labels that only containers carry, with the contract's names; the others are in runtime/labels.h.
namespace label {
inline constexpr std::string_view kExecdHostPort = "opensandbox.io/embedding-proxy-port";
inline constexpr std::string_view kHttpHostPort = "opensandbox.io/http-port";
inline constexpr std::string_view kManagedVolumes = "opensandbox.io/volume-managed-by";
// An addition, on volumes: the sandbox whose create made it.
inline constexpr std::string_view kMadeFor = "opensandbox.io/volume-made-for";
inline constexpr std::string_view kEgressToken = "opensandbox.io/egress-auth-token";
// Additions, on sandboxes with a network policy: the host's port of their policy API; and of those that joined the
// network of their sidecar, as earlier versions made them, their address.
inline constexpr std::string_view kEgressAddress = "opensandbox.io/egress-address";
inline constexpr std::string_view kEgressHostPort = "opensandbox.io/egress-port";
inline constexpr std::string_view kOssfsMounts = "opensandbox.io/ossfs-mounts";
// An addition: names of the user's metadata, which otherwise cannot be told from what the image brought along.
inline constexpr std::string_view kMetadataKeys = "opensandbox.io/metadata-keys";
}  // namespace label

inline constexpr std::string_view kTokenVariable = "EXECD_ACCESS_TOKEN";

std::string container_name(std::string_view sandbox);   // "sandbox-" + id
std::string snapshot_image(std::string_view snapshot);  // "opensandbox-snapshots:" + id
bool has_metadata_name(std::string_view label);         // a name that is neither ours nor an engine's

// A container as the engine describes it.
struct Container {
  std::string id;
  std::string sandbox;   // label opensandbox.io/id
  std::string status;    // created, running, paused, restarting, removing, exited, dead
  std::int64_t pid = 0;  // of its first process, for the engine; 0 when it does not run
  std::string runtime;   // "runc"
  int exit_code = 0;
  bool out_of_memory = false;
  std::string error;  // why it could not start
  std::optional<Timestamp> created_at, finished_at;
  api::StringMap labels;
  std::string address;  // in the network it was put in; "" without one of its own
  std::string image;    // as it was asked for
  std::vector<std::string> command;
  std::string execd_token;
  std::uint16_t execd_host_port = 0, http_host_port = 0, egress_host_port = 0;
  std::string egress_token;       // of its policy API; "" without a policy
  std::int64_t memory_limit = 0;  // bytes; 0 is none
  std::string hook_failure;       // how its preStart failed, which ended it; from its log, see find_hook_failure()

  // It has ended with an error and has a preStart hook.
  bool may_be_hook_failure() const;
  // Volumes to delete with it.
  std::vector<std::string> managed_volumes() const;
};

// The answer of /containers/{id}/json. `network` is the one to take the address from.
Container read_container(const boost::json::value& inspected, const std::string& network);

// The last line in which execd says that a hook failed, without its beginning (api::kHookFailureLine); "" is none. A
// sandbox can write such a line too: it deceives itself only.
std::string find_hook_failure(std::string_view log);

// In the terms of every backend, without ports. One that runs is Running here, whether or not execd has answered.
Instance to_instance(const Container& container);

}  // namespace osb::runtime
