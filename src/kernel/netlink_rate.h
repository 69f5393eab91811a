#pragma once

#include <cstdint>

#include "kernel/netlink.h"

// Limits of the rate at which an interface sends, by rtnetlink (the kernel's `tbf`). Packets beyond the rate wait in a
// queue, and are dropped when it is full. The functions only add to the batch.
namespace osb::kernel {

struct SendRate {
  std::uint64_t bytes_per_second = 0;
  std::uint32_t burst = 0;  // bytes that may leave at once; at least 64 KiB, so that no packet is larger
  std::uint32_t queue = 0;  // bytes that may wait
};
void set_send_rate(NetlinkBatch& batch, unsigned index, const SendRate& rate);  // replaces another one
// Fails with ENOENT or EINVAL where there is none.
void clear_send_rate(NetlinkBatch& batch, unsigned index);

}  // namespace osb::kernel
