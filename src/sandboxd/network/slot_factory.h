#pragma once

#include <cstdint>
#include <mutex>
#include <set>

#include "base/error.h"
#include "kernel/netlink.h"
#include "kernel/netlink_route.h"
#include "sandboxd/network/network_config.h"
#include "sandboxd/network/slot_pool.h"

namespace osb::sandboxd {

// Makes, checks and cleans single slots; SlotPool decides which and when. Several threads may use it.
class SlotFactory {
 public:
  static Result<SlotFactory> open(const NetworkConfig& config);

  // The gateway's address must exist (Firewall::install). When it fails, what was made goes with its descriptors, but
  // the interface may exist for a moment.
  Result<Slot> make(unsigned index, NetworkMode mode);

  // The slot of a process that runs; see SlotPool::adopt.
  Result<Slot> find(unsigned index, NetworkMode mode, pid_t pid, SlotHolder holder);

  // Queues at both ends of the link; without a limit none.
  Result<void> shape(const Slot& slot, const Bandwidth& limit);

  // False: a socket is left that cannot be ended.
  Result<bool> end_sockets(const Slot& slot);
  // Packets that passed its interface, ever.
  Result<std::uint64_t> packets(const Slot& slot);
  // Of all these addresses: costs milliseconds for any number of them.
  Result<void> forget_connections(const std::vector<unsigned>& indices);
  // Of every address but these.
  Result<void> forget_other_connections(const std::set<unsigned>& indices);

  // Interfaces of ours that exist.
  Result<std::vector<unsigned>> existing();
  // Waits until one of `indices` has no interface any more. Code::Timeout otherwise.
  Result<void> wait_for_end(const std::vector<unsigned>& indices, std::chrono::milliseconds timeout);

 private:
  struct Sockets {
    std::mutex mutex;  // of route
    kernel::NetlinkSocket route;
    std::mutex netfilter_mutex;
    kernel::NetlinkSocket netfilter;
  };

  SlotFactory(const NetworkConfig& config, unsigned mtu, bool ipv6, std::unique_ptr<Sockets> sockets);
  Result<void> connect(const Slot& slot, std::uint32_t address, kernel::NetlinkSocket& inside);

  NetworkConfig config_;
  unsigned mtu_;
  bool ipv6_;  // the kernel has it
  std::unique_ptr<Sockets> sockets_;
};

}  // namespace osb::sandboxd
