#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "kernel/nftables.h"
#include "policy/address_sets.h"
#include "sandboxd/network/network_config.h"

namespace osb::sandboxd {

// The part of a network policy that the kernel enforces for a slot. Only IPv4: sandboxes have no IPv6.
struct SlotPolicy {
  struct Network {
    std::uint32_t base = 0;  // host byte order
    unsigned length = 32;
    std::uint16_t tcp_port = 0;  // 0: all ports and protocols

    auto operator<=>(const Network&) const = default;
  };
  bool default_allow = false;
  bool intercept = false;          // see kIntercepted
  std::vector<Network> deny = {};  // sorted; beats addresses that names opened, and `allow`
  std::vector<Network> allow = {};

  bool operator==(const SlotPolicy&) const = default;
};

// Code::InvalidRequest: more networks and ports than one sandbox may put into the kernel's tables.
Result<SlotPolicy> compile_policy(const policy::AddressSets& sets);

inline constexpr std::size_t kMostPolicyNetworks = 16384;
// Name servers of sandboxes with a policy: all port 53 is led to NetworkConfig::egress_port of the gateway.
inline constexpr const char* kRestricted = "restricted";  // addresses of sandboxes with a policy
inline constexpr const char* kOpened = "opened";          // sandbox . address that a name resolved to, for a while
// Addresses of sandboxes with a policy whose TCP connections to ports 80 and 443 are led to
// NetworkConfig::intercept_port, if the policy lets them pass. QUIC is refused: nobody could look into it.
inline constexpr const char* kIntercepted = "intercepted";
// Addresses of sandboxes whose policy became narrower: packets of their connections are judged like new ones until the
// kernel has forgotten the connections that are not permitted any more.
inline constexpr const char* kJudged = "judged_again";

// Sets and chains. One hash set for the networks of all sandboxes, with the network's length in the key: 33 lookups at
// most find an address among any number of networks, and a change only adds and deletes elements. A chain and interval
// sets for each sandbox would make the kernel check all chains again at each change of the verdict map.
//
// The chain comes behind `destinations`: a policy can close, but not open what the operator has closed.
void put_policies(kernel::NftBatch& batch, const NetworkConfig& config, std::int32_t priority);
// Where the egress process may open connections: not to the host, not to sandboxes, and to no network that is closed to
// all sandboxes. It asks name servers everywhere, and sends its reports where the operator wants.
void put_process_limits(kernel::NftBatch& batch, const NetworkConfig& config);
// Port 53 of sandboxes with a policy passes `destinations`, whatever its address.
void accept_name_questions(kernel::NftBatch& batch, const NetworkConfig& config, const char* chain);
// It enters the host there, and is never forwarded.
void accept_led_questions(kernel::NftBatch& batch, const NetworkConfig& config, const char* input_chain);
void drop_forwarded_questions(kernel::NftBatch& batch, const NetworkConfig& config, const char* forward_chain);

struct OpenedAddress {
  std::uint32_t address = 0;
  std::chrono::milliseconds lifetime{0};
};

// From one policy to the next; nullptr: none. Elements that both have are not touched.
void change_policy(kernel::NftBatch& batch, std::uint32_t sandbox, const SlotPolicy* before, const SlotPolicy* next);
void judge_again(kernel::NftBatch& batch, std::uint32_t sandbox, bool on);
// `known`: an element may be there already, with a shorter time. Both work on kernels that do not prolong a time, and
// whether or not the element has expired meanwhile.
void open_addresses(kernel::NftBatch& batch, std::uint32_t sandbox, std::span<const OpenedAddress> addresses,
                    bool known);
// Connections that exist go on there although the address is not open (any more).
void keep_connections(kernel::NftBatch& batch, std::uint32_t sandbox, std::span<const OpenedAddress> addresses);
void close_addresses(kernel::NftBatch& batch, std::uint32_t sandbox, std::span<const std::uint32_t> addresses);

}  // namespace osb::sandboxd
