#include "egress/sidecar/packet_table.h"

#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>

#include "base/ports.h"

namespace osb::egress {
namespace {

using kernel::NftBatch;
using kernel::NftElement;
using kernel::NftField;
using kernel::NftRule;

constexpr const char* kChain = "egress";
constexpr const char* kRefuse = "refuse";
constexpr const char* kUpstreams = "upstreams";
constexpr std::uint32_t kLoopbackNetwork = 0x7f000000, kLoopback = 0x7f000001, kLinkLocal = 0xa9fe0000;
constexpr std::uint16_t kNames = 53, kNamesOverTls = 853, kHttp = 80, kHttps = 443;
// With its terminating zero the whole name is compared, not only the beginning.
constexpr std::string_view kLoopbackInterface{"lo\0", 3};

const std::vector<NftField> kAddressKey = {NftField::Destination};
const std::vector<NftField> kAddressPortKey = {NftField::Destination, NftField::DestinationPort};
const std::vector<NftField> kServerKey = {NftField::Destination, NftField::Protocol, NftField::DestinationPort};

NftElement range_element(const policy::AddressRange& range) {
  NftElement out;
  out.key.address(range.first.to_v4());
  out.last.emplace().address(range.last.to_v4());
  return out;
}

void put_ranges(NftBatch& batch, const std::string& set, const std::vector<policy::AddressRange>& ranges) {
  std::vector<NftElement> elements;
  for (const auto& range : ranges) elements.push_back(range_element(range));
  batch.add_interval_set(set, kAddressKey);
  batch.add_elements(set, elements);
}

void put_port_ranges(NftBatch& batch, const std::string& set, const std::vector<policy::PortRange>& ranges) {
  std::vector<NftElement> elements;
  for (const auto& range : ranges) {
    NftElement each = range_element(range.addresses);
    each.key.port(range.port);
    each.last->port(range.port);
    elements.push_back(std::move(each));
  }
  batch.add_interval_set(set, kAddressPortKey);
  batch.add_elements(set, elements);
}

// A connection that was revoked is forgotten, but its peer goes on sending: such a packet must not count as the
// beginning of a connection from outside, whose answers would pass. TCP connections from outside begin with SYN, alone
// or with the bits of ECN. There are none of UDP.
void put_arrivals(NftBatch& batch) {
  const char* chain = "arrivals";
  constexpr std::uint8_t kSyn = 0x02, kSynWithEcn = 0xc2;
  batch.add_chain({.name = chain, .hook = NF_INET_LOCAL_IN, .priority = NF_IP_PRI_FILTER});
  batch.add_rule(chain, std::move(NftRule().input_interface(kLoopbackInterface).accept()));
  batch.add_rule(chain, std::move(NftRule().connection_established().accept()));
  batch.add_rule(chain, std::move(NftRule().tcp().tcp_flags(kSyn).accept()));
  batch.add_rule(chain, std::move(NftRule().tcp().tcp_flags(kSynWithEcn).accept()));
  batch.add_rule(chain, std::move(NftRule().tcp().connection_new().drop()));
  batch.add_rule(chain, std::move(NftRule().udp().connection_new().drop()));
}

void begin_table(NftBatch& batch, bool drop_by_default) {
  batch.add_table();  // so that there is one to delete
  batch.delete_table();
  batch.add_table();
  batch.add_chain(kRefuse);
  batch.add_rule(kRefuse, std::move(NftRule().tcp().reset()));
  batch.add_rule(kRefuse, std::move(NftRule().prohibited()));
  batch.add_rule(kRefuse, std::move(NftRule().drop()));
  put_arrivals(batch);
  batch.add_chain(
      {.name = kChain, .hook = NF_INET_LOCAL_OUT, .priority = NF_IP_PRI_FILTER, .drop_by_default = drop_by_default});
}

// The sandbox has no business with the API of its own policy. Only our own sockets answer there: a program of the
// sandbox that takes the port while no sidecar runs would be sent the token of the next request.
void guard_api(NftBatch& batch, std::uint16_t port, std::uint32_t mark) {
  batch.add_rule(kChain,
                 std::move(NftRule().tcp().destination_port(port).output_interface(kLoopbackInterface).reset()));
  batch.add_rule(kChain, std::move(NftRule().packet_mark(mark).tcp().source_port(port).accept()));
  batch.add_rule(kChain, std::move(NftRule().tcp().source_port(port).tcp_refusal().accept()));
  batch.add_rule(kChain, std::move(NftRule().tcp().source_port(port).drop()));
}

void refuse_port(NftBatch& batch, std::uint16_t port) {
  batch.add_rule(kChain, std::move(NftRule().udp().destination_port(port).jump(kRefuse)));
  batch.add_rule(kChain, std::move(NftRule().tcp().destination_port(port).jump(kRefuse)));
}

// Our own packets to an upstream server: by mark, owner, address, protocol and port.
NftRule own_sockets(const PacketTable& table) {
  NftRule rule;
  rule.packet_mark(table.own.mark);
  if (table.own.owner != 0) rule.socket_owner(table.own.owner);
  return rule;
}

NftRule own_packets(const PacketTable& table) {
  return std::move(own_sockets(table).ipv4().in_set(kUpstreams, kServerKey));
}

void put_upstreams(NftBatch& batch, const PacketTable& table) {
  std::vector<NftElement> elements;
  for (const Endpoint& server : table.upstreams) {
    if (server.address.v6) continue;
    for (const std::uint8_t protocol : {IPPROTO_UDP, IPPROTO_TCP}) {
      elements.emplace_back().key.address(server.address.to_v4()).protocol(protocol).port(server.port);
    }
  }
  batch.add_set(kUpstreams, kServerKey);
  batch.add_elements(kUpstreams, elements);
}

// Questions of the sandbox come to us, before Docker's own translation of port 53.
void put_redirect(NftBatch& batch, const PacketTable& table) {
  const char* chain = "names";
  batch.add_chain({.name = chain, .type = "nat", .hook = NF_INET_LOCAL_OUT, .priority = NF_IP_PRI_NAT_DST - 1});
  batch.add_rule(chain, std::move(own_packets(table).accept()));
  const auto lead = [&](NftRule rule) {
    batch.add_rule(chain, std::move(rule.destination_port(kNames).translate_destination(kLoopback, kSidecarDnsPort)));
  };
  lead(std::move(NftRule().ipv4().udp()));
  lead(std::move(NftRule().ipv4().tcp()));
  if (!table.intercept) return;
  // Programs of the sandbox talk to each other without us.
  batch.add_rule(chain, std::move(NftRule().ipv4().destination_type(RTN_LOCAL).accept()));
  for (const std::uint16_t port : {kHttp, kHttps}) {
    batch.add_rule(chain, std::move(own_sockets(table).ipv4().tcp().destination_port(port).accept()));
    batch.add_rule(chain, std::move(NftRule().ipv4().tcp().destination_port(port).translate_destination(
                              kLoopback, kSidecarInterceptPort)));
  }
}

std::vector<policy::AddressRange> ranges_of(const std::vector<IpPrefix>& networks) {
  std::vector<policy::AddressRange> out;
  for (const IpPrefix& prefix : without_overlaps(networks)) {
    if (prefix.base.v6) continue;
    const std::uint32_t first = prefix.base.to_v4();
    const std::uint32_t last = first | (prefix.length == 0 ? ~0U : (prefix.length == 32 ? 0 : ~0U >> prefix.length));
    out.push_back({IpAddress::v4(first), IpAddress::v4(last)});
  }
  return out;
}

void put_doh(NftBatch& batch, const PacketTable& table) {
  if (!table.block_doh) return;
  if (table.doh_blocklist.empty()) {
    batch.add_rule(kChain, std::move(NftRule().tcp().destination_port(kHttps).jump(kRefuse)));
    return;
  }
  put_ranges(batch, "doh_block_v4", ranges_of(table.doh_blocklist));
  batch.add_rule(
      kChain,
      std::move(NftRule().ipv4().in_set("doh_block_v4", kAddressKey).tcp().destination_port(kHttps).jump(kRefuse)));
}

void put_policy(NftBatch& batch, const PacketTable& table) {
  put_ranges(batch, "deny_v4", table.sets.deny.v4);
  put_ranges(batch, "allow_v4", table.sets.allow.v4);
  put_port_ranges(batch, "deny_tcp_v4", table.sets.deny.tcp_v4);
  put_port_ranges(batch, "allow_tcp_v4", table.sets.allow.tcp_v4);
  batch.add_timed_set(kLearned, kAddressKey);
  learn_addresses(batch, table.learned, false);
  batch.add_rule(kChain, std::move(NftRule().ipv4().in_set("deny_v4", kAddressKey).jump(kRefuse)));
  batch.add_rule(kChain, std::move(NftRule().ipv4().tcp().in_set("deny_tcp_v4", kAddressPortKey).jump(kRefuse)));
  batch.add_rule(kChain, std::move(NftRule().ipv4().tcp().in_set(kLearned, kAddressKey).accept()));
  batch.add_rule(kChain, std::move(NftRule().ipv4().udp().in_set(kLearned, kAddressKey).accept()));
  batch.add_rule(kChain, std::move(NftRule().ipv4().in_set("allow_v4", kAddressKey).accept()));
  batch.add_rule(kChain, std::move(NftRule().ipv4().tcp().in_set("allow_tcp_v4", kAddressPortKey).accept()));
}

}  // namespace

void put_table(NftBatch& batch, const PacketTable& table) {
  const bool deny = table.sets.default_action == policy::Action::Deny;
  begin_table(batch, deny);
  put_upstreams(batch, table);
  put_redirect(batch, table);
  guard_api(batch, table.api_port, table.own.mark);
  // Before connections that exist: a tracked connection of ours lives longer than its socket, and the sandbox could
  // take over its port.
  batch.add_rule(kChain, std::move(own_packets(table).accept()));
  for (const std::uint16_t port : table.own_ports) {
    batch.add_rule(kChain, std::move(own_sockets(table).tcp().destination_port(port).accept()));
  }
  if (table.intercept) {
    for (const std::uint16_t port : {kHttp, kHttps}) {
      batch.add_rule(kChain, std::move(own_sockets(table).ipv4().tcp().destination_port(port).accept()));
    }
  }
  batch.add_rule(kChain, std::move(NftRule().ipv4().in_set(kUpstreams, kServerKey).jump(kRefuse)));
  batch.add_rule(kChain, std::move(NftRule().output_interface(kLoopbackInterface).accept()));
  // Redirected packets still carry the interface of their first destination.
  batch.add_rule(kChain, std::move(NftRule().ipv4().destination(kLoopbackNetwork, 8).accept()));
  refuse_port(batch, kNames);
  batch.add_rule(kChain, std::move(NftRule().connection_established().accept()));
  batch.add_rule(kChain, std::move(NftRule().connection_invalid().drop()));
  batch.add_rule(kChain, std::move(NftRule().ipv6().jump(kRefuse)));
  refuse_port(batch, kNamesOverTls);
  if (table.intercept) batch.add_rule(kChain, std::move(NftRule().udp().destination_port(kHttps).jump(kRefuse)));
  put_doh(batch, table);
  // Metadata of clouds: a rule for a network that happens to hold it must not open it, as on other backends.
  batch.add_rule(kChain, std::move(NftRule().ipv4().destination(kLinkLocal, 16).jump(kRefuse)));
  put_policy(batch, table);
  if (!table.closed.empty()) {
    put_ranges(batch, "closed_v4", ranges_of(table.closed));
    batch.add_rule(kChain, std::move(NftRule().ipv4().in_set("closed_v4", kAddressKey).jump(kRefuse)));
  }
  if (deny) batch.add_rule(kChain, std::move(NftRule().jump(kRefuse)));
}

void put_closed_table(NftBatch& batch, const PacketTable& table) {
  begin_table(batch, true);
  guard_api(batch, table.api_port, table.own.mark);
  batch.add_rule(kChain, std::move(NftRule().connection_established().connection_reply().accept()));
  batch.add_rule(kChain, std::move(NftRule().output_interface(kLoopbackInterface).accept()));
  batch.add_rule(kChain, std::move(NftRule().jump(kRefuse)));
}

void learn_addresses(NftBatch& batch, const std::vector<api::egress::OpenAddress>& addresses, bool known) {
  std::vector<NftElement> elements;
  for (const auto& each : addresses) {
    if (each.address.v6) continue;
    NftElement element;
    element.key.address(each.address.to_v4());
    element.lifetime = std::chrono::seconds(each.seconds);
    elements.push_back(std::move(element));
  }
  if (elements.empty()) return;
  batch.add_elements(kLearned, elements);
  if (!known) return;
  // Kernels before 6.12 do not prolong the time of an element that exists: it goes and comes back, in one transaction.
  // A transaction with deletions makes the next one wait for all processors, so only where it has to be.
  batch.delete_elements(kLearned, elements);
  batch.add_elements(kLearned, elements);
}

}  // namespace osb::egress
