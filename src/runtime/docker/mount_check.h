#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::runtime {

// A file or directory of this machine that an engine will mount, held open since the check. The engine gets a path and
// follows it later: a process that may write to a directory above can put a link in its place.
struct PinnedMount {
  std::string source;  // its path, without links
  std::string target;  // in the container
  std::string reason;  // the contract's code for one that leads elsewhere
  UniqueFd file;       // O_PATH
};

// Opens what is at this path now; refused if any part of the path is a link. Blocks, as do the others.
Result<UniqueFd> open_pinned(const std::string& path);

// Whether the paths still lead there: before the engine is told to mount them.
Result<void> check_sources(const std::vector<PinnedMount>& mounts);

// Whether this is what a container has been given: after the engine has mounted them. `pid` is its first process as
// the engine sees it, maybe in a process namespace of its own. False: it is over, or may not be looked at.
Result<bool> check_mounted(const std::vector<PinnedMount>& mounts, const std::string& container, std::int64_t pid);

}  // namespace osb::runtime
