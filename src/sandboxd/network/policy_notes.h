#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "kernel/netlink_conntrack.h"
#include "kernel/nftables.h"
#include "sandboxd/network/network_config.h"
#include "sandboxd/network/policy_rules.h"

namespace osb::sandboxd {

// A new policy of a slot.
struct PolicyChange {
  std::optional<SlotPolicy> policy = {};   // none lifts it and closes everything that was opened
  std::vector<std::uint32_t> closed = {};  // opened addresses that go
  std::vector<std::uint32_t> kept = {};    // not open any more, but their connections go on
  bool narrower = false;                   // connections that exist may not be permitted any more
};

// The policies and opened addresses of slots that the kernel has, or will have when the table is built. Each change
// comes with its elements for a transaction; a transaction that fails is undone by the value from before. One thread.
class PolicyNotes {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Addresses = std::map<std::uint32_t, Time>;  // until when
  struct Slot {
    std::optional<SlotPolicy> policy = {};
    Addresses opened = {};
    Addresses kept = {};
    std::uint64_t judged_since = 0;  // the number of the change; 0: its connections are not judged again
  };
  using Judged = std::map<unsigned, std::uint64_t>;  // slots, and the number of their change

  explicit PolicyNotes(const NetworkConfig& config) : config_(config) {}

  Slot get(unsigned slot) const;
  void restore(unsigned slot, Slot before);

  void change(kernel::NftBatch& batch, unsigned slot, PolicyChange change, Time now);
  void open(kernel::NftBatch& batch, unsigned slot, std::span<const OpenedAddress> addresses, Time now);

  // Whether a connection that exists may go on. Connections of other addresses may.
  bool permits(const kernel::TrackedFlow& flow, Time now) const;
  Judged judged() const;
  // The connections of these slots have been looked through. Slots that have changed meanwhile stay.
  void end_judging(kernel::NftBatch& batch, const Judged& done);

  // Elements of an older table: opened for slots with a policy unless it denies them, and slots to judge again.
  void adopt(std::span<const kernel::NftTimedKey> opened, Time now);
  void adopt_judged(std::span<const std::vector<std::uint8_t>> addresses);

  // Everything, into a new table.
  void put_all(kernel::NftBatch& batch, Time now);

 private:
  Slot* find(std::uint32_t address);

  const NetworkConfig& config_;
  std::map<unsigned, Slot> slots_;
  std::uint64_t changes_ = 0;
};

// A rule that denies all ports of the address.
bool denies(const SlotPolicy& policy, std::uint32_t address);
// A connection that was permitted before might not be any more.
bool narrows(const SlotPolicy& before, const SlotPolicy& next);

}  // namespace osb::sandboxd
