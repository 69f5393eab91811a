#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <sys/types.h>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::cli {

// A process that outlives us. Pid and start time together name it for good.
struct DaemonProcess {
  pid_t pid = 0;
  std::uint64_t start = 0;

  bool alive() const;
};

// What `osb up` leaves behind for `osb down`: service.json in the service's directory, readable by its owner only.
struct ServiceRecord {
  std::uint16_t port = 0;
  std::string key;
  std::string cgroup_parent;
  std::string table;  // of nftables
  std::optional<DaemonProcess> sandboxd, server;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port); }
  bool running() const { return sandboxd && sandboxd->alive() && server && server->alive(); }
};

// Nothing: no service was started there.
Result<std::optional<ServiceRecord>> read_record(const std::filesystem::path& directory);
// Replaces it as a whole.
Result<void> write_record(const std::filesystem::path& directory, const ServiceRecord& record);

// Held by whoever starts or stops the service; Code::Conflict when somebody else does. The directory must exist.
Result<UniqueFd> lock_service(const std::filesystem::path& directory);

}  // namespace osb::cli
