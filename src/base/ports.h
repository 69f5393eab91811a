#pragma once

#include <cstdint>

// Ports that several parts must agree on.
namespace osb {

inline constexpr std::uint16_t kServerPort = 8080;   // of the server's API, if nothing else is configured
inline constexpr std::uint16_t kExecdPort = 44772;   // of execd in every sandbox
inline constexpr std::uint16_t kHttpPort = 8080;     // published for the user's own server in a sandbox
inline constexpr std::uint16_t kEgressPort = 18080;  // of the policy API of a sandbox with a network policy
// On the loopback interface that a sandbox of a container engine shares with its egress sidecar: the sidecar's DNS
// proxy, and the gate that keeps the sandbox's first program from starting before the sidecar enforces the policy.
inline constexpr std::uint16_t kSidecarDnsPort = 15353, kPolicyGatePort = 15354;
inline constexpr std::uint16_t kRedisPort = 6379;

}  // namespace osb
