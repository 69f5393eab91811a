#pragma once

#include <filesystem>
#include <string>

#include "cli/local/local_service.h"
#include "cli/output/output.h"

namespace osb::cli {

inline constexpr std::string_view kServiceDirectory = "/var/lib/opensandbox-local";

// "osb down", with --dir where that is needed.
std::string local_command(std::string_view command, const std::filesystem::path& directory);

// Says what a stop has left.
void show_stopped(Output& out, const std::filesystem::path& directory, const StoppedService& stopped);

}  // namespace osb::cli
