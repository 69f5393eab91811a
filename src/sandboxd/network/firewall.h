#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "sandboxd/network/network_config.h"
#include "sandboxd/network/policy_notes.h"

namespace osb::sandboxd {

// A port of the host that leads into a sandbox.
struct PublishedPort {
  Protocol protocol = Protocol::Tcp;
  std::uint16_t host_port = 0;  // 0: a free one is chosen
  // Only connections of this host itself (to 127.0.0.1 or any of its addresses). Otherwise other machines get in too.
  bool host_only = true;
  unsigned slot = 0;  // index of a slot that is admitted
  std::uint16_t port = 0;
};

// How connections reach slots. Firewall says what the calls promise; tests have an implementation of their own.
class SlotRules {
 public:
  virtual ~SlotRules() = default;
  virtual Result<void> refuse(unsigned slot) = 0;
  virtual Result<void> accept(unsigned slot) = 0;
  virtual Result<std::uint16_t> publish(PublishedPort port) = 0;
  virtual Result<void> unpublish_all(unsigned slot) = 0;
  virtual Result<void> allow_resolvers(const std::vector<std::uint32_t>& addresses) = 0;
};

// The network policies of slots. Firewall says what the calls promise.
class PolicyRules {
 public:
  virtual ~PolicyRules() = default;
  virtual Result<void> set_policy(unsigned slot, PolicyChange change) = 0;
  virtual Result<void> open_addresses(unsigned slot, const std::vector<OpenedAddress>& addresses) = 0;
  virtual std::vector<std::uint32_t> opened(unsigned slot) const = 0;
  virtual Result<unsigned> end_revoked_connections() = 0;
};

// The rules around sandboxes: one nftables table (family inet) that belongs to this daemon; other tables are not
// touched. A packet from a sandbox's interface
//   - carries that sandbox's address and is IPv4, or is dropped before anything else looks at it (the kernel's strict
//     rp_filter is set too);
//   - never reaches another sandbox, a closed network (NetworkConfig), or the host itself except for replies, name
//     servers, configured services and ping of the gateway. The destination that the sandbox has chosen counts, before
//     any table translates it. Connections elsewhere are refused at once (TCP reset, ICMP "prohibited");
//   - leaves the host with the host's address.
// To a sandbox come: the host, replies, and published ports.
//
// A sandbox with a network policy reaches less: networks that its policy allows, addresses that were opened for it
// because an allowed name resolved to them, and the name server that all its questions are led to
// (NetworkConfig::egress_port). policy_rules.h has the rules.
//
// Clients do not wait for an answer that cannot come. The host refuses in the sandbox's place (TCP reset, ICMP port
// unreachable) every packet to a slot that is not admitted, and every new connection to one that refuse() has named.
//
// Published ports also work on 127.0.0.1. For that the kernel must route 127.0.0.0/8 on the sandbox's interface
// (route_localnet), which would let the sandbox talk to services that listen on the host's loopback only: the first
// chain drops every packet from a sandbox to 127.0.0.0/8 before connection tracking translates replies, and the flag is
// set only while that sandbox has a published port.
//
// The table outlives the daemon. install() replaces it in one transaction, so no packet ever passes without rules, and
// connections go on: their translation is kept by connection tracking. Functions may be called from any thread (of the
// network namespace where open() was called) and block for about 0.1 ms.
class Firewall final : public SlotRules, public PolicyRules {
 public:
  static Result<std::unique_ptr<Firewall>> open(const NetworkConfig& config);
  ~Firewall() override;  // the table stays

  // Prepares the host (gateway address on lo, routes, forwarding) and builds the table with all that was admitted and
  // published so far. Before it, the other functions only take notes. Fails when the host routes the subnet elsewhere.
  Result<void> install();
  // The table, routes and gateway address go. Forwarding stays on.
  Result<void> remove();

  Result<void> admit(unsigned slot);
  // Its published ports go too. Unknown slots are fine.
  Result<void> expel(unsigned slot);

  // From now on new connections to the slot are refused by the host; open ones are left alone. For sandboxes that are
  // paused or being removed. Lasts until accept() or expel(). Slots that are not admitted are fine.
  Result<void> refuse(unsigned slot) override;
  Result<void> accept(unsigned slot) override;

  // Packets of the slot beyond so many bytes per second are dropped; 0 lifts the limit, and so does expel().
  Result<void> limit_sending(unsigned slot, std::uint64_t bytes_per_second);

  // Returns the host's port. It is held by a bound socket until unpublish(), so nothing else gets it; Code::Conflict
  // when something has it already: publishing must not take a port away from a service of the host.
  Result<std::uint16_t> publish(PublishedPort port) override;
  Result<void> unpublish(Protocol protocol, std::uint16_t host_port);
  Result<void> unpublish_all(unsigned slot) override;
  std::vector<PublishedPort> published(unsigned slot) const;

  // Name servers of sandboxes: port 53 of these addresses is open in closed networks and on this host too. Addresses
  // are added to those of earlier calls, because living sandboxes use them. Costs nothing for known ones.
  Result<void> allow_resolvers(const std::vector<std::uint32_t>& addresses) override;

  // The network policy of a slot, in one transaction; expel() lifts it too. A narrower policy holds for connections
  // that exist as well, from the return on.
  Result<void> set_policy(unsigned slot, PolicyChange change) override;
  // The kernel has the addresses when it returns, and removes each after its lifetime. A slot without a policy needs
  // none. Open addresses survive a change of policy, and install() in a new daemon.
  Result<void> open_addresses(unsigned slot, const std::vector<OpenedAddress>& addresses) override;
  std::vector<std::uint32_t> opened(unsigned slot) const override;
  // Makes the kernel forget the connections that narrower policies have revoked. Until then it judges each packet of
  // these sandboxes, which is slower. Walks the kernel's table of all connections: several milliseconds. Returns how
  // many there were.
  Result<unsigned> end_revoked_connections() override;

 private:
  class Impl;
  explicit Firewall(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// For `sandboxd check`: each other firewall on this host that drops forwarded packets by default (Docker's does). Our
// accepting a packet does not overrule them.
struct ForeignFirewall {
  std::string what;    // a sentence
  std::string advice;  // what to do
};
Result<std::vector<ForeignFirewall>> foreign_forward_drops(const NetworkConfig& config);

}  // namespace osb::sandboxd
