#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "execd/owner/permission.h"

namespace osb::execd {

// Changes of single files. Paths are clean and absolute; every call blocks.

// Removes a file, or a symlink to one, or one that points nowhere. Missing is success; a directory, or a symlink to
// one, is an error.
Result<void> remove_file(const std::string& path);

// Never replaces what has the new name; makes the directories above it (0755). Not across file systems.
Result<void> move_path(const std::string& source, const std::string& destination);

// mkdir -p; a directory that existed already stays as it is.
Result<void> make_directory(const std::string& path, const Permission& permission);

// Replaces every occurrence in the file, byte by byte and in pieces, of any size. The file keeps mode and owner and
// gets a new modification time even if nothing was found. Returns how many were replaced. `wanted` is not empty.
Result<std::uint64_t> replace_in_file(const std::string& path, std::string_view wanted, std::string_view replacement);

}  // namespace osb::execd
