#pragma once

#include <filesystem>
#include <string_view>

#include "cli/problem.h"

namespace osb::cli {

enum class ConfigAccess {
  AsBefore,  // of the file that is replaced
  Private,   // the owner's only: there is a key in it
};

// Whole or not at all; a new file is its owner's only. A symbolic link stays one. Root (sudo osb up --save) leaves the
// file to whom it belonged, and gives what it makes to the owner of the directory around it.
Expected<void> write_config(const std::filesystem::path& path, std::string_view text, ConfigAccess access);

}  // namespace osb::cli
