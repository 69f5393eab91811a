#pragma once

#include <opensandbox/sandbox.h>
#include <optional>
#include <string>

namespace osb::cli {

// The directory that a path leads to when links are followed, which the file routes do not tell: /usr/bin for /bin.
// Nothing: it leads to none. Asks the sandbox's shell.
std::optional<std::string> directory_behind(const opensandbox::Sandbox& sandbox, const std::string& path);

}  // namespace osb::cli
