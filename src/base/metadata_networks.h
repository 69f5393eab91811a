#pragma once

#include <cstdint>

namespace osb {

// Addresses of clouds' metadata services, which give the machine's credentials to every client.
struct MetadataNetwork {
  std::uint32_t base = 0;  // host byte order; bits beyond the prefix are zero
  unsigned prefix_length = 32;
};
inline constexpr MetadataNetwork kMetadataNetworks[] = {
    {.base = 0xa9fe0000, .prefix_length = 16},  // 169.254.0.0/16: link-local; EC2, ECS, Google, Azure, OpenStack, ..
    {.base = 0x646464c8},                       // 100.100.100.200: Alibaba
    {.base = 0xa83f8110},                       // 168.63.129.16: Azure's wire server
    {.base = 0xc00000c0},                       // 192.0.0.192: Oracle
};

}  // namespace osb
