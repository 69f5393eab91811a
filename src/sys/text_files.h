#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace osb::sys {

struct TextFile {
  std::string name;  // without its directory
  std::string text;
};

struct TextFileLimits {
  std::size_t files = 1000;
  std::size_t file_bytes = 1 << 20;
};

// The files of a directory whose names end with `suffix` and do not begin with a dot, sorted by name. Links are
// followed; directories and other things are skipped. Above a limit it fails (Code::TooLarge) instead of leaving files
// out.
Result<std::vector<TextFile>> read_text_files(const std::string& directory, std::string_view suffix,
                                              const TextFileLimits& limits = {});

}  // namespace osb::sys
