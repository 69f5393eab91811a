#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::cli {

// A process that outlives us. Boot, pid and start time together name it for good.
struct DaemonProcess {
  pid_t pid = 0;
  std::uint64_t start = 0;
  std::string boot = {};  // empty in records of older versions: not compared

  bool alive() const;
};

// The process with this pid as it is now.
DaemonProcess identify_daemon(pid_t pid);

// The profile that `osb up` has written.
struct SavedProfile {
  std::filesystem::path file;
  std::string name;
};

// Begins a registry that talks HTTP without TLS.
inline constexpr std::string_view kPlainRegistry = "http://";

// All that `osb up` has to remember about a service: service.json in the service's directory, readable by its owner
// only. It stays until `osb down --purge`.
struct ServiceRecord {
  std::uint16_t port = 0;
  std::string key;
  std::string cgroup_parent;
  std::string table;  // of nftables
  std::string interface_prefix = "osl-";
  unsigned network = 0;                 // see service_network.h
  std::vector<std::string> host_paths;  // sandboxes may mount these directories of the host
  // Registries on this machine and on private networks that images may come from; those without TLS begin with
  // kPlainRegistry.
  std::vector<std::string> registries;
  std::vector<SavedProfile> profiles;
  std::optional<DaemonProcess> sandboxd, server;

  std::string domain() const { return "127.0.0.1:" + std::to_string(port); }
  std::string url() const { return "http://" + domain(); }
  bool running() const { return sandboxd && sandboxd->alive() && server && server->alive(); }
};

// Nothing: no service lives there.
Result<std::optional<ServiceRecord>> read_record(const std::filesystem::path& directory);
// Replaces it as a whole; on the disk when this returns.
Result<void> write_record(const std::filesystem::path& directory, const ServiceRecord& record);

// Held while a service is started, stopped or removed. Waits for another osb that holds it; `waiting` is called first.
// Code::NotFound when there is no such directory, also when the other osb has removed it meanwhile.
Result<UniqueFd> lock_service(const std::filesystem::path& directory, const std::function<void()>& waiting);

}  // namespace osb::cli
