#pragma once

#include <string_view>

namespace osb::execd {

// Makes one isolated session. It is this program, started with the argument below, with the session's control socket as
// descriptor 3. It takes the session's description from there, becomes the session's first process (serve_session) and
// says that it is ready, or why it cannot be.
//
// Started by execd itself, where execd may make namespaces ("direct"), it makes all of them. Started by sandboxd
// ("prepared"), it is the first process of a new PID namespace inside the sandbox's, with that namespace's /proc over a
// copy of the sandbox's mounts, and with all capabilities in the sandbox's user namespace and none outside.
inline constexpr std::string_view kSessionMakerArgument = "--isolated-session";
inline constexpr int kMakerControlFd = 3;
inline constexpr int kMakerFilterFd = 4;  // prepared: the sandbox's seccomp program
inline constexpr int kMakerLimitFd = 5;   // limited: the sandbox's max_user_namespaces, open for writing

// `argv` behind the argument: "direct", or "prepared" and the capabilities of the sandbox as a number, and "limited"
// where the sandbox's processes may make no user namespaces.
[[noreturn]] void make_session(int argc, char** argv);

}  // namespace osb::execd
