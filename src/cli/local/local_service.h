#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/error.h"
#include "cli/local/service_record.h"

namespace osb::cli {

// sandboxd and opensandbox-server on this machine for whoever has none: started in the background by `osb up`, ended
// together with their sandboxes by `osb down`. They have directories, cgroups, addresses and a firewall table of their
// own, so that an installed OpenSandbox and this one do not meet. Everything here needs root.

struct LocalServiceOptions {
  std::filesystem::path directory;
  std::filesystem::path programs;  // where sandboxd, execd and opensandbox-server are
  std::uint16_t port = 8080;
  std::string key;
};

// Returns when both say that they are ready; after a failure nothing is left. `say` gets what is going on. The
// directory is made if it is missing; one that holds something else is refused.
Result<ServiceRecord> start_service(const LocalServiceOptions& options, const std::function<void(std::string)>& say);

// Ends both, removes their sandboxes, images and records, and the directory. False: there was nothing to stop.
Result<bool> stop_service(const std::filesystem::path& directory, const std::function<void(std::string)>& say);

}  // namespace osb::cli
