#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace osb::sandboxd {

// Whether sandboxes below the state directory can be limited in what they write.
bool has_disk_limits(const std::string& state_directory);

// Everything that the sandbox will write into its directory (upper/, work/ and run/, all empty) takes at most so many
// bytes. Its record is not among it: it can be kept, paused and removed when it is full.
Result<void> limit_disk(const std::string& sandbox_directory, std::uint64_t bytes);

// The limit's number in the file system, for free_disk_limit() after the files are gone. 0: none.
std::uint32_t disk_limit_of(const std::string& sandbox_directory);
void free_disk_limit(const std::string& state_directory, std::uint32_t number);

}  // namespace osb::sandboxd
