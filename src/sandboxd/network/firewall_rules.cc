#include "sandboxd/network/firewall_rules.h"

#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/rtnetlink.h>

#include "kernel/connection_limit.h"
#include "sandboxd/network/bandwidth.h"
#include "sandboxd/network/policy_rules.h"

namespace osb::sandboxd {
namespace {

using kernel::NftField;
using kernel::NftRule;

constexpr std::uint32_t kLoopback = 0x7f000000;
constexpr std::string_view kLoopbackInterface("lo\0", 3);  // with its end: exactly this name
constexpr const char* kServices = "host_services";
constexpr std::uint8_t kIcmpEchoRequest = 8;
constexpr std::uint8_t kIcmpRedirect = 5;
// The state of the connection is known, and no table has translated the destination yet: the kernel takes chains that
// translate only behind this priority.
constexpr int kBeforeTranslation = NF_IP_PRI_CONNTRACK + 1;

const std::vector<NftField> kMemberKey = {NftField::InputInterface, NftField::Source};
const std::vector<NftField> kAddressKey = {NftField::Destination};
const std::vector<NftField> kSourceKey = {NftField::Source};
const std::vector<NftField> kPortKey = {NftField::Protocol, NftField::DestinationPort};
const std::vector<NftField> kResolverKey = {NftField::Destination, NftField::Protocol, NftField::DestinationPort};

// Before connection tracking: nothing else has seen or changed the packet yet.
void put_early(kernel::NftBatch& batch, const NetworkConfig& config) {
  const std::string_view ours = config.interface_prefix;
  batch.add_chain({.name = "early", .hook = NF_INET_PRE_ROUTING, .priority = NF_IP_PRI_RAW});
  batch.add_rule("early", std::move(NftRule().input_interface(ours).ipv6().drop()));
  // The host's loopback: see route_localnet in firewall.h. Replies to the host carry the gateway's address here.
  batch.add_rule("early", std::move(NftRule().input_interface(ours).ipv4().destination(kLoopback, 8).drop()));
  batch.add_rule("early", std::move(NftRule().input_interface(ours).ipv4().in_set(kMembers, kMemberKey, false).drop()));
  // Only sandboxes' interfaces may send from sandboxes' addresses.
  batch.add_rule("early", std::move(NftRule()
                                        .input_interface(ours, false)
                                        .input_interface(kLoopbackInterface, false)
                                        .ipv4()
                                        .source(config.subnet.base, config.subnet.prefix_length)
                                        .drop()));
  batch.add_rule("early", std::move(NftRule().input_interface(ours).ipv4().in_set(kSendLimits, kSourceKey).drop()));
  // They change the host's routes where a careless setting accepts them.
  batch.add_rule("early", std::move(NftRule().input_interface(ours).ipv4().icmp_type(kIcmpRedirect).drop()));
}

// Which destinations a sandbox may open a connection to. The only place that decides it, and it sees the destination
// that the sandbox has chosen: a port of the host that another table leads elsewhere (as `docker run -p` does) is the
// host's. `accept` ends this chain only: policies of single sandboxes have a chain of their own behind this one.
void put_destinations(kernel::NftBatch& batch, const NetworkConfig& config) {
  const char* chain = "destinations";
  batch.add_set(kResolvers, kResolverKey);
  batch.add_chain({.name = chain, .hook = NF_INET_PRE_ROUTING, .priority = kBeforeTranslation});
  const auto refuse = [&](const auto& match) {
    batch.add_rule(chain, std::move(match().tcp().reset()));
    batch.add_rule(chain, std::move(match().prohibited()));
  };
  const auto to = [](const Subnet& network) {
    return [&network] { return std::move(NftRule().ipv4().destination(network.base, network.prefix_length)); };
  };
  batch.add_rule(chain, std::move(NftRule().input_interface(config.interface_prefix, false).accept()));
  batch.add_rule(chain, std::move(NftRule().connection_answered().accept()));
  // Errors about a connection. Other packets are related by helpers, which believe what a sandbox writes.
  batch.add_rule(chain, std::move(NftRule().ipv4().icmp().connection_related().accept()));
  batch.add_rule(chain, std::move(NftRule().ipv4().in_set(kResolvers, kResolverKey).accept()));
  accept_name_questions(batch, config, chain);
  if (config.answer_ping) {
    batch.add_rule(chain,
                   std::move(NftRule().ipv4().destination(config.gateway(), 32).icmp_type(kIcmpEchoRequest).accept()));
  }
  batch.add_rule(chain, std::move(NftRule().ipv4().destination_type(RTN_LOCAL).in_set(kServices, kPortKey).accept()));
  refuse([] { return std::move(NftRule().ipv4().destination_type(RTN_LOCAL)); });
  batch.add_rule(chain, std::move(NftRule().ipv4().destination_type(RTN_BROADCAST).drop()));
  batch.add_rule(chain, std::move(NftRule().ipv4().destination_type(RTN_MULTICAST).drop()));
  for (const Subnet& network : config.blocked) refuse(to(network));
  for (const Subnet& network : config.allowed_metadata) batch.add_rule(chain, std::move(to(network)().accept()));
  for (const Subnet& network : metadata_networks()) refuse(to(network));
  if (config.allow_private_networks) return;
  for (const Subnet& network : config.allowed_networks) batch.add_rule(chain, std::move(to(network)().accept()));
  for (const Subnet& network : private_networks()) refuse(to(network));
}

NftRule begins_connection(const NetworkConfig& config) {
  return std::move(NftRule().input_interface(config.interface_prefix).connection_unconfirmed().ipv4());
}

// How many connections a sandbox may begin. Each is judged once, by its first packet: connections that are refused
// above are no entries. Packets beyond the limit are dropped, and TCP tries again.
void put_connection_limits(kernel::NftBatch& batch, const NetworkConfig& config) {
  if (config.max_connections == 0) return;
  batch.add_set(kConnections, kSourceKey);
  batch.add_set(kNewTcp, kSourceKey, kernel::new_tcp_meter(config.max_connections));
  const char* chain = "connection_limits";
  batch.add_chain({.name = chain, .hook = NF_INET_PRE_ROUTING, .priority = kBeforeTranslation + 2});
  batch.add_rule(chain, std::move(begins_connection(config).tcp().in_set(kNewTcp, kSourceKey).drop()));
  batch.add_rule(chain, std::move(begins_connection(config).in_set(kConnections, kSourceKey).drop()));
}

// The same for all sandboxes together, behind the limits of each.
void put_limits_of_all(kernel::NftBatch& batch, const NetworkConfig& config) {
  if (config.total_connections <= 0) return;
  const kernel::ConnectionLimit limit{.chain = "connection_limits_of_all",
                                      .priority = kBeforeTranslation + 3,
                                      .set = kConnectionsOfAll,
                                      .most = static_cast<std::uint64_t>(config.total_connections)};
  put_connection_limit(batch, limit, [&] { return begins_connection(config); });
}

// The host answers for addresses of sandboxes that cannot answer. An address that is not (or no longer) in kAddresses
// refuses everything, so connections of a sandbox that is gone end too; one in kRefused takes no new connections.
// Interfaces are not looked at: in the output hook a packet to a published port still has the one of its first
// destination.
void put_refusals(kernel::NftBatch& batch, const NetworkConfig& config, const char* chain, bool translated_only) {
  const auto to_sandbox = [&] {
    NftRule rule;
    rule.ipv4().destination(config.subnet.base, config.subnet.prefix_length).destination(config.gateway(), 32, false);
    if (translated_only) rule.connection_translated();
    return rule;
  };
  batch.add_rule(chain, std::move(to_sandbox().in_set(kAddresses, kAddressKey, false).tcp().reset()));
  batch.add_rule(chain, std::move(to_sandbox().in_set(kAddresses, kAddressKey, false).unreachable()));
  batch.add_rule(chain, std::move(to_sandbox().in_set(kRefused, kAddressKey).connection_new().tcp().reset()));
  batch.add_rule(chain, std::move(to_sandbox().in_set(kRefused, kAddressKey).connection_new().unreachable()));
}

// Packets that the host itself sends.
void put_output(kernel::NftBatch& batch, const NetworkConfig& config) {
  batch.add_chain({.name = "output", .hook = NF_INET_LOCAL_OUT, .priority = NF_IP_PRI_FILTER});
  put_refusals(batch, config, "output", false);
}

void put_forward(kernel::NftBatch& batch, const NetworkConfig& config) {
  const std::string_view ours = config.interface_prefix;
  batch.add_chain({.name = "forward", .hook = NF_INET_FORWARD, .priority = NF_IP_PRI_FILTER});
  batch.add_rule("forward", std::move(NftRule().input_interface(ours).output_interface(ours).drop()));
  drop_forwarded_questions(batch, config, "forward");
  // Published ports only: to all others of the outside world sandboxes stay invisible.
  put_refusals(batch, config, "forward", true);
  // No interface has the address; lo must not send the packet round again.
  batch.add_rule("forward", std::move(NftRule()
                                          .output_interface(kLoopbackInterface)
                                          .ipv4()
                                          .destination(config.subnet.base, config.subnet.prefix_length)
                                          .unreachable()));
  batch.add_rule("forward", std::move(NftRule().output_interface(ours).connection_established().accept()));
  batch.add_rule("forward", std::move(NftRule().output_interface(ours).connection_translated().accept()));
  batch.add_rule("forward", std::move(NftRule().output_interface(ours).drop()));
}

void put_services(kernel::NftBatch& batch, const NetworkConfig& config) {
  batch.add_set(kServices, kPortKey);
  std::vector<kernel::NftElement> services;
  for (const HostService& service : config.host_services) {
    kernel::NftElement element;
    element.key.protocol(static_cast<std::uint8_t>(service.protocol)).port(service.port);
    services.push_back(std::move(element));
  }
  batch.add_elements(kServices, services);
}

void put_input(kernel::NftBatch& batch, const NetworkConfig& config) {
  const std::string_view ours = config.interface_prefix;
  batch.add_chain({.name = "input", .hook = NF_INET_LOCAL_IN, .priority = NF_IP_PRI_FILTER});
  batch.add_rule("input", std::move(NftRule().input_interface(ours).connection_established().accept()));
  if (config.answer_ping) {
    batch.add_rule("input", std::move(NftRule()
                                          .input_interface(ours)
                                          .ipv4()
                                          .destination(config.gateway(), 32)
                                          .icmp_type(kIcmpEchoRequest)
                                          .accept()));
  }
  batch.add_rule("input", std::move(NftRule().input_interface(ours).ipv4().in_set(kResolvers, kResolverKey).accept()));
  accept_led_questions(batch, config, "input");
  batch.add_rule("input", std::move(NftRule().input_interface(ours).ipv4().in_set(kServices, kPortKey).accept()));
  batch.add_rule("input", std::move(NftRule().input_interface(ours).drop()));
}

void put_translation(kernel::NftBatch& batch, const NetworkConfig& config) {
  const std::string_view ours = config.interface_prefix;
  batch.add_chain({.name = "arriving", .type = "nat", .hook = NF_INET_PRE_ROUTING, .priority = NF_IP_PRI_NAT_DST});
  // Published ports are no way from one sandbox to another.
  batch.add_rule("arriving", std::move(NftRule().input_interface(ours).leave_chain()));
  batch.add_rule("arriving", std::move(NftRule().ipv4().destination_type(RTN_LOCAL).translate_destination(
                                 kPublishedOutside, kPortKey)));
  batch.add_chain({.name = "from_host", .type = "nat", .hook = NF_INET_LOCAL_OUT, .priority = NF_IP_PRI_NAT_DST});
  batch.add_rule("from_host",
                 std::move(NftRule().ipv4().destination_type(RTN_LOCAL).translate_destination(kPublished, kPortKey)));

  batch.add_chain({.name = "leaving", .type = "nat", .hook = NF_INET_POST_ROUTING, .priority = NF_IP_PRI_NAT_SRC});
  // From 127.0.0.1 to a published port: the sandbox needs an address it can answer. (Masquerading would look for one on
  // the interface, which has none.)
  batch.add_rule(
      "leaving",
      std::move(NftRule().output_interface(ours).ipv4().source(kLoopback, 8).translate_source(config.gateway())));
  // Refusals that the host sends to itself in a sandbox's name leave by lo.
  batch.add_rule("leaving", std::move(NftRule()
                                          .output_interface(ours, false)
                                          .output_interface(kLoopbackInterface, false)
                                          .ipv4()
                                          .source(config.subnet.base, config.subnet.prefix_length)
                                          .source(config.gateway(), 32, false)
                                          .masquerade()));
}

kernel::NftElement member_element(const NetworkConfig& config, unsigned slot) {
  kernel::NftElement element;
  element.key.interface(config.interface(slot)).address(config.address(slot));
  return element;
}

// Sets with the address of every slot, besides kConnections.
std::vector<const char*> address_sets(const NetworkConfig& config) {
  if (config.max_connections == 0) return {kAddresses};
  return {kAddresses, kNewTcp};
}

}  // namespace

void put_table(kernel::NftBatch& batch, const NetworkConfig& config) {
  batch.add_table();  // so that there is one to delete
  batch.delete_table();
  batch.add_table();
  batch.add_set(kMembers, kMemberKey);
  batch.add_set(kAddresses, kAddressKey);
  batch.add_set(kRefused, kAddressKey);
  batch.add_set(kSendLimits, kSourceKey);
  batch.add_map(kPublished, kPortKey);
  batch.add_map(kPublishedOutside, kPortKey);
  put_services(batch, config);
  put_early(batch, config);
  put_policies(batch, config, kBeforeTranslation + 1);
  put_destinations(batch, config);
  put_connection_limits(batch, config);
  put_limits_of_all(batch, config);
  put_forward(batch, config);
  put_input(batch, config);
  put_output(batch, config);
  put_process_limits(batch, config);
  put_translation(batch, config);
}

void admit_slots(kernel::NftBatch& batch, const NetworkConfig& config, const std::set<unsigned>& slots) {
  std::vector<kernel::NftElement> members, addresses;
  for (const unsigned slot : slots) {
    members.push_back(member_element(config, slot));
    addresses.push_back(address_element(config, slot));
  }
  batch.add_elements(kMembers, members);
  for (const char* set : address_sets(config)) batch.add_elements(set, addresses);
  if (config.max_connections == 0) return;
  // Each has a meter of its own instead of a copy of the set's: when copies go, kernels (6.18) take back a reference to
  // connection tracking that they never took, until tracking is off for the whole host.
  for (kernel::NftElement& each : addresses)
    each.meter = kernel::NftMeter{.of = kernel::NftMeter::Of::Connections, .most = config.max_connections};
  batch.add_elements(kConnections, addresses);
}

void expel_slot(kernel::NftBatch& batch, const NetworkConfig& config, unsigned slot) {
  batch.delete_elements(kMembers, {member_element(config, slot)});
  for (const char* set : address_sets(config)) batch.delete_elements(set, {address_element(config, slot)});
  if (config.max_connections != 0) batch.delete_elements(kConnections, {address_element(config, slot)});
}

kernel::NftElement address_element(const NetworkConfig& config, unsigned slot) {
  kernel::NftElement element;
  element.key.address(config.address(slot));
  return element;
}

std::vector<kernel::NftElement> resolver_elements(std::uint32_t address) {
  std::vector<kernel::NftElement> elements;
  for (const Protocol protocol : {Protocol::Udp, Protocol::Tcp}) {
    kernel::NftElement element;
    element.key.address(address).protocol(static_cast<std::uint8_t>(protocol)).port(53);
    elements.push_back(std::move(element));
  }
  return elements;
}

kernel::NftElement limited_element(const NetworkConfig& config, unsigned slot, std::uint64_t bytes_per_second) {
  kernel::NftElement element = address_element(config, slot);
  element.meter = meter_of(bytes_per_second);
  return element;
}

kernel::NftElement port_element(const NetworkConfig& config, const PublishedPort& port) {
  kernel::NftElement element;
  element.key.protocol(static_cast<std::uint8_t>(port.protocol)).port(port.host_port);
  element.data.address(config.address(port.slot)).port(port.port);
  return element;
}

}  // namespace osb::sandboxd
