#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::sandboxd {

// Files in a sandbox's run directory, which the sandbox writes and sandboxd only reads. A pipe or a link in their place
// must neither block sandboxd nor lead it elsewhere.

// With O_RDONLY or O_WRONLY. Only a file is opened: no link, and no pipe, which would wait for its other end.
Result<UniqueFd> open_foreign_file(const std::string& path, int access);

// The last `limit` bytes of a file that a process may be writing to.
Result<std::string> read_tail(const std::string& path, std::size_t limit);

// Gives the disk space of everything but the last `keep` bytes back, once there is twice as much. The size stays, so
// that writers and readers notice nothing: the freed part reads as zeros.
Result<void> free_all_but_tail(const std::string& path, std::uint64_t keep);

}  // namespace osb::sandboxd
