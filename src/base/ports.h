#pragma once

#include <cstdint>

// Ports that several parts must agree on.
namespace osb {

inline constexpr std::uint16_t kServerPort = 8080;  // of the server's API, if nothing else is configured
inline constexpr std::uint16_t kExecdPort = 44772;  // of execd in every sandbox
inline constexpr std::uint16_t kHttpPort = 8080;    // published for the user's own server in a sandbox
inline constexpr std::uint16_t kRedisPort = 6379;

}  // namespace osb
