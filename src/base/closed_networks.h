#pragma once

#include <cstdint>

namespace osb {

// Networks that sandboxes do not reach unless the operator opens them.
struct ClosedNetwork {
  std::uint32_t base = 0;  // host byte order; bits beyond the prefix are zero
  unsigned prefix_length = 32;
};

// Addresses of clouds' metadata services, which give the machine's credentials to every client.
inline constexpr ClosedNetwork kMetadataNetworks[] = {
    {.base = 0xa9fe0000, .prefix_length = 16},  // 169.254.0.0/16: link-local; EC2, ECS, Google, Azure, OpenStack, ..
    {.base = 0x646464c8},                       // 100.100.100.200: Alibaba
    {.base = 0xa83f8110},                       // 168.63.129.16: Azure's wire server
    {.base = 0xc00000c0},                       // 192.0.0.192: Oracle
};

// Networks that are not of the internet: the operator's own.
inline constexpr ClosedNetwork kPrivateNetworks[] = {
    {.base = 0x0a000000, .prefix_length = 8},   // 10.0.0.0/8
    {.base = 0xac100000, .prefix_length = 12},  // 172.16.0.0/12
    {.base = 0xc0a80000, .prefix_length = 16},  // 192.168.0.0/16
    {.base = 0x64400000, .prefix_length = 10},  // 100.64.0.0/10: behind a provider's NAT; overlay networks use it too
    {.base = 0xf0000000, .prefix_length = 4},   // 240.0.0.0/4: reserved; some clouds use it inside
};

}  // namespace osb
