#pragma once

#include <string>
#include <string_view>

namespace osb::execd {

// A zip archive that holds one file, not compressed: what a JVM takes as an entry of its class path.
std::string one_file_archive(std::string_view name, std::string_view content);

}  // namespace osb::execd
