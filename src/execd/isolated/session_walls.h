#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace osb::execd {

// The capabilities of a session's processes where the sandbox's own set is not given: those that programs of root
// expect, and none over the system.
inline constexpr std::uint64_t kSessionCapabilities =
    1ULL << 0 | 1ULL << 1 | 1ULL << 3 | 1ULL << 4 | 1ULL << 5 |  // chown dac_override fowner fsetid kill
    1ULL << 6 | 1ULL << 7 | 1ULL << 8 |                          // setgid setuid setpcap
    1ULL << 10 | 1ULL << 29 | 1ULL << 31;                        // net_bind_service audit_write setfcap

// One layer of hardening as capabilities report it.
struct WallState {
  std::string state;  // active, disabled, degraded, unsupported
  std::string message;
};

struct SessionWalls {
  WallState cap_drop, seccomp, landlock;
};

// Gives up everything that a session's processes must not have, for this process and all that it starts: capabilities
// outside of `capabilities`, new privileges by exec, the system calls of a fixed list and those that the program in
// `filter` (an array of sock_filter; -1: none) refuses, and signals and abstract sockets to processes outside of it.
// Fails where capabilities or seccomp cannot be had; Landlock is left out on kernels without it.
Result<SessionWalls> raise_session_walls(std::uint64_t capabilities, int filter);

}  // namespace osb::execd
