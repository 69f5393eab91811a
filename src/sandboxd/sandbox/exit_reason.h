#pragma once

#include <optional>
#include <string>

#include "api/native.h"
#include "sys/spawn.h"

namespace osb::sandboxd {

// execd's record of the entrypoint's end. The sandbox can write the file: nothing is returned if it is not
// well-formed.
std::optional<sys::ExitStatus> read_exit_record(const std::string& path);
// Why the entrypoint was not started, from the same file.
struct NotStarted {
  std::string why;           // in execd's words: at most 1000 printable characters; empty if it was started
  bool hook_failed = false;  // because a lifecycle hook failed
};
NotStarted read_not_started(const std::string& path);

// `entrypoint` is what execd says, `process` what the kernel says of PID 1 (each if known).
api::native::Exit describe_exit(std::optional<sys::ExitStatus> entrypoint, std::optional<sys::ExitStatus> process,
                                bool oom_killed);
std::string exit_reason(const api::native::Exit& exit);  // "OUT_OF_MEMORY", "SIGNALLED", "EXITED"
// For people; names the memory limit, if there is one, when that was the reason.
std::string exit_message(const api::native::Exit& exit, std::optional<std::uint64_t> memory_limit,
                         bool limit_reached = true);

}  // namespace osb::sandboxd
