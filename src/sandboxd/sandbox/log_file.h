#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"

// The log of an entrypoint, which execd writes with times (base/timed_log.h) and of which free_all_but_tail() has
// taken the begin away when it was long. Its contents come from the sandbox and are not trusted.
namespace osb::sandboxd {

// Where to begin reading.
struct LogsFrom {
  std::string since;                // a moment as in stamps, without the space; empty: all there is
  std::optional<std::size_t> tail;  // the last lines; with `since` the smaller part
};

// The offset of the first wanted line. `since` and `tail` are searched in the last 256 MiB.
Result<std::uint64_t> find_log_start(int fd, const LogsFrom& from);

struct LogChunk {
  std::string bytes;       // empty at the end of the file
  std::uint64_t next = 0;  // where to go on
  std::uint64_t gone = 0;  // bytes that were freed before they were read; `bytes` begins with a line then
};

// Up to `limit` bytes from `offset` on.
Result<LogChunk> read_log(int fd, std::uint64_t offset, std::size_t limit);

}  // namespace osb::sandboxd
