#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "base/error.h"

namespace osb::sys {

struct FileAccess {
  mode_t mode = 0600;
  std::optional<gid_t> group = {};  // otherwise the group of this process
};

// Gives `name` a new text as a whole: readers see the old file or the new one, and so does a machine whose power was cut.
// The new one is on the disk when this returns. On failure the old one stays and nothing is left beside it.
Result<void> replace_file(int directory, const std::string& name, std::string_view text, const FileAccess& access = {});
Result<void> replace_file(const std::filesystem::path& path, std::string_view text, const FileAccess& access = {});

}  // namespace osb::sys
