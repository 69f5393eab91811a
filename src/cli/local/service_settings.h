#pragma once

#include <filesystem>
#include <string>

#include "base/error.h"
#include "cli/local/service_record.h"

namespace osb::cli {

// Files of a service, in its directory:
//   service.json                     the record
//   sandboxd.toml, server.toml       settings, made from the record at each start
//   execd, opensandbox-server        copies: users without rights on the originals' directory run them
//   state/, run/                     sandboxd's
//   server/                          the server's database
//   sandboxd.log, opensandbox-server.log, and .old ones of the run before

std::filesystem::path sandboxd_settings(const std::filesystem::path& directory);
std::filesystem::path server_settings(const std::filesystem::path& directory);

std::string sandboxd_settings_text(const ServiceRecord& record);
std::string server_settings_text(const std::filesystem::path& directory, const ServiceRecord& record);

// The server's directory, owned by its user, with the database of older versions moved there.
Result<void> prepare_server_directory(const std::filesystem::path& directory, const ServiceRecord& record);

// Copies a program so that everyone can run it. Sandboxes that run the old copy keep it.
Result<std::filesystem::path> copy_program(const std::filesystem::path& program,
                                           const std::filesystem::path& directory);

}  // namespace osb::cli
