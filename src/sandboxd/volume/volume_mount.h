#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::sandboxd {

// Turns an open directory or file (O_PATH) into a volume: a detached copy of it and of the mounts below it, private,
// nosuid, nodev, all of them read-only if asked. `userns` maps the ids, -1 leaves them. `what` names it in errors.
// VOLUME::UNSUPPORTED_BACKEND when a file system in it cannot be mapped.
Result<UniqueFd> clone_volume(int source, int userns, bool read_only, const std::string& what);

// Memory, mode 1777, owned by `owner` on the host.
Result<UniqueFd> make_tmpfs(std::uint64_t bytes, std::uint32_t owner, bool read_only);

}  // namespace osb::sandboxd
