#pragma once

#include <filesystem>
#include <vector>

namespace osb::cli {

// Paths of the entries; an empty list when it cannot be read. For /proc and cgroups, where directories go while they
// are read.
inline std::vector<std::filesystem::path> list_directory(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> out;
  std::error_code failed;
  for (std::filesystem::directory_iterator each(directory, failed), end; !failed && each != end;
       each.increment(failed)) {
    out.push_back(each->path());
  }
  return out;
}

}  // namespace osb::cli
