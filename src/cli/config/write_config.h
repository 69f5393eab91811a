#pragma once

#include <filesystem>
#include <string_view>

#include "cli/problem.h"

namespace osb::cli {

enum class ConfigAccess {
  AsBefore,  // of the file that is replaced
  Private,   // the owner's only: there is a key in it
};

// Whole or not at all; only its owner can read a new file. A symbolic link stays one. Root (sudo osb up --save) keeps
// the owner of the file, and gives a new file to the owner of its directory.
Expected<void> write_config(const std::filesystem::path& path, std::string_view text, ConfigAccess access);

}  // namespace osb::cli
