#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/local/service_record.h"

namespace osb::cli {

// sandboxd and opensandbox-server on this machine, in the background. A directory holds all that they keep; starting
// and stopping never deletes any of it. Each service has cgroups, addresses, ids and a firewall table of its own, so
// that several of them and an installed OpenSandbox can run side by side. Everything here needs root.

struct LocalServiceOptions {
  std::filesystem::path directory;  // absolute
  std::filesystem::path programs;   // where sandboxd, execd and opensandbox-server are
  // Absent: as the service had it before. A new service gets the port and key of `otherwise`, no host paths and no
  // registries.
  std::optional<std::uint16_t> port;
  std::optional<std::string> key;
  std::optional<std::vector<std::string>> host_paths;
  std::optional<std::vector<std::string>> registries;
  struct {
    std::uint16_t port = 8080;
    std::string key;
  } otherwise;
};

using Progress = std::function<void(std::string)>;

struct StartedService {
  ServiceRecord record;
  bool was_running = false;   // with the same settings: nothing was started
  bool existed = false;       // state of an earlier run was there
  std::size_t sandboxes = 0;  // that run now
};

// Starts the daemons that do not run, restarts those whose settings change, and returns when both are ready. The
// directory is made if it is missing; one that holds something else is refused. After a failure the daemons that this
// call has started are stopped, and the directory of a new service is removed.
Result<StartedService> start_service(const LocalServiceOptions& options, const Progress& say);

struct StoppedService {
  ServiceRecord record;
  bool was_running = false;   // one of the daemons did
  std::size_t sandboxes = 0;  // that run now
};

// Stops both daemons and keeps the rest: sandboxes go on running. Nothing: no service lives there.
Result<std::optional<StoppedService>> stop_service(const std::filesystem::path& directory, const Progress& say);

// Stops everything, sandboxes included, and deletes the directory. Nothing: no service lived there.
Result<std::optional<ServiceRecord>> purge_service(const std::filesystem::path& directory, const Progress& say);

// Adds a profile to the service's record.
Result<void> remember_profile(const std::filesystem::path& directory, const SavedProfile& profile);

}  // namespace osb::cli
