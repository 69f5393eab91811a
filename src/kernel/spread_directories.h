#pragma once

#include <string>

#include "base/error.h"

namespace osb::kernel {

// Tells ext4 that the subdirectories of `directory` have nothing to do with each other: each new one goes to another
// part of the disk. For a directory in which many small trees come and go: ext4 does not reuse an inode for a minute
// after its end and tries all of them again for each new file, so that making ten files in one part of the disk comes
// to cost milliseconds. File systems that do not know the flag do not need it: no error.
Result<void> spread_subdirectories(const std::string& directory);

}  // namespace osb::kernel
