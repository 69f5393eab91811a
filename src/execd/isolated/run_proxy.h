#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "sys/spawn.h"

namespace osb::execd {

// A run in a session is a process of execd's own that waits for the real one: execd starts, times, signals and kills it
// like any other, and the session's first process does the same to the real one. It runs this program with the argument
// below, its descriptors are those of the real process, and two more.
inline constexpr std::string_view kRunProxyArgument = "--isolated-run";
inline constexpr int kProxyControlFd = 200;
inline constexpr int kProxyRequestFd = 201;

// Turns the plan of a process into that of its proxy in the session behind `control`. `request` holds the process's
// program, directory, arguments and environment, and outlives the spawn.
Result<void> wrap_in_proxy(sys::SpawnPlan& plan, int control, UniqueFd& request);

// main() of the proxy: `targets` are the numbers of descriptors to pass on, separated by commas. Ends as the real
// process does.
[[noreturn]] void run_proxy(std::string_view targets);

}  // namespace osb::execd
