#pragma once

#include <cstddef>
#include <filesystem>

#include "base/error.h"
#include "cli/local/service_record.h"

namespace osb::cli {

// Sandboxes of the service that have processes, whether or not sandboxd runs: seen in the cgroups.
std::size_t count_running_sandboxes(const ServiceRecord& record);

// Ends daemons and sandboxes, and removes all that the service has on this host, its directory last: after an
// interruption the record is still there, and the next call goes on. The caller holds the lock.
Result<void> remove_service(const std::filesystem::path& directory, const ServiceRecord& record);

}  // namespace osb::cli
