#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace osb::sandboxd {

// The path of a program that makes file systems, "mkfs.ext4". Code::Unsupported names the Debian package to install.
Result<std::string> find_mkfs(const std::string& program, const std::string& package);

// Runs it. `argv` holds its options and the file; the error holds the first output of the program. Blocks.
Result<void> make_file_system(const std::string& program, std::vector<std::string> argv);

}  // namespace osb::sandboxd
