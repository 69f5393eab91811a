#include "sandboxd/network/policy_rules.h"

#include <algorithm>
#include <iterator>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/rtnetlink.h>
#include <string>

namespace osb::sandboxd {
namespace {

using kernel::NftBatch;
using kernel::NftElement;
using kernel::NftField;
using kernel::NftRule;
using Network = SlotPolicy::Network;

constexpr const char* kDefaultAllow = "policy_default_allow";  // addresses
constexpr const char* kKept = "policy_kept";                   // like kOpened, for connections that exist
constexpr const char* kRefuse = "policy_refuse";
constexpr std::uint16_t kNames = 53;
constexpr std::uint16_t kNamesOverTls = 853;  // and over QUIC
constexpr std::uint16_t kHttp = 80, kHttps = 443;

// A set of networks, the addresses of the sandboxes that have any in it, and the chain that asks it: the chain's name
// is the set's.
struct NetworkSet {
  const char* networks;
  const char* sandboxes;
  bool deny;
  bool ports;
};
constexpr NetworkSet kNetworkSets[] = {
    {"policy_deny", "has_policy_deny", true, false},
    {"policy_deny_tcp", "has_policy_deny_tcp", true, true},
    {"policy_allow", "has_policy_allow", false, false},
    {"policy_allow_tcp", "has_policy_allow_tcp", false, true},
};

const std::vector<NftField> kSourceKey = {NftField::Source};
const std::vector<NftField> kPairKey = {NftField::Source, NftField::Destination};
const std::vector<NftField> kNetworkKey = {NftField::Source, NftField::Destination, NftField::Number};
const std::vector<NftField> kNetworkPortKey = {NftField::Source, NftField::Destination, NftField::Number,
                                               NftField::DestinationPort};

NftElement address_element(std::uint32_t address) {
  NftElement element;
  element.key.address(address);
  return element;
}

NftElement pair_element(std::uint32_t sandbox, const OpenedAddress& opened) {
  NftElement element;
  element.key.address(sandbox).address(opened.address);
  element.lifetime = opened.lifetime;
  return element;
}

NftRule ipv4() { return std::move(NftRule().ipv4()); }

// A packet of a sandbox with a policy.
NftRule restricted(const NetworkConfig& config) {
  return std::move(NftRule().input_interface(config.interface_prefix).ipv4().in_set(kRestricted, kSourceKey));
}

template <typename F>
void for_names(F put) {
  put([](NftRule rule) { return std::move(rule.udp().destination_port(kNames)); });
  put([](NftRule rule) { return std::move(rule.tcp().destination_port(kNames)); });
}

void put_network_chain(NftBatch& batch, const NetworkSet& set) {
  batch.add_set(set.networks, set.ports ? kNetworkPortKey : kNetworkKey);
  batch.add_set(set.sandboxes, kSourceKey);
  batch.add_chain(set.networks);
  for (int length = 32; length >= 0; --length) {
    NftRule rule;
    rule.network_in_set(set.networks, {.length = static_cast<unsigned>(length)}, set.ports);
    batch.add_rule(set.networks, std::move(set.deny ? rule.jump(kRefuse) : rule.accept()));
  }
}

void jump_to_networks(NftBatch& batch, const char* chain, bool deny) {
  for (const NetworkSet& set : kNetworkSets) {
    if (set.deny != deny) continue;
    NftRule rule;
    rule.ipv4().in_set(set.sandboxes, kSourceKey);
    if (set.ports) rule.tcp();
    batch.add_rule(chain, std::move(rule.jump(set.networks)));
  }
}

// The networks of one of the sets above.
std::vector<Network> part(const SlotPolicy* policy, const NetworkSet& set) {
  std::vector<Network> out;
  if (policy == nullptr) return out;
  std::ranges::copy_if(set.deny ? policy->deny : policy->allow, std::back_inserter(out),
                       [&](const Network& each) { return (each.tcp_port != 0) == set.ports; });
  return out;
}

std::vector<NftElement> only_in_first(std::uint32_t sandbox, const std::vector<Network>& first,
                                      const std::vector<Network>& second) {
  std::vector<Network> only;
  std::ranges::set_difference(first, second, std::back_inserter(only));
  std::vector<NftElement> out;
  out.reserve(only.size());
  for (const Network& network : only) {
    NftElement element;
    element.key.address(sandbox).address(network.base).number(network.length);
    if (network.tcp_port != 0) element.key.port(network.tcp_port);
    out.push_back(std::move(element));
  }
  return out;
}

void change_membership(NftBatch& batch, const char* set, std::uint32_t sandbox, bool before, bool next) {
  if (before && !next) batch.delete_elements(set, {address_element(sandbox)});
  if (!before && next) batch.add_elements(set, {address_element(sandbox)});
}

void add_networks(std::vector<Network>& out, const policy::AddressRange& range, std::uint16_t port) {
  for (const IpPrefix& prefix : policy::prefixes(range))
    out.push_back({.base = prefix.base.to_v4(), .length = prefix.length, .tcp_port = port});
}

std::vector<Network> networks_of(const policy::AddressSet& set) {
  std::vector<Network> out;
  for (const policy::AddressRange& range : set.v4) add_networks(out, range, 0);
  for (const policy::PortRange& range : set.tcp_v4) add_networks(out, range.addresses, range.port);
  std::ranges::sort(out);
  return out;
}

}  // namespace

Result<SlotPolicy> compile_policy(const policy::AddressSets& sets) {
  const auto refuse = [](std::size_t count) {
    return fail(Code::InvalidRequest, "the policy has " + std::to_string(count) +
                                          " networks and ports after joining neighbours; a sandbox can have " +
                                          std::to_string(kMostPolicyNetworks));
  };
  // Before they are made: a range can be many networks, but never fewer.
  if (const std::size_t ranges = sets.deny.size() + sets.allow.size(); ranges > 2 * kMostPolicyNetworks)
    return refuse(ranges);
  SlotPolicy out{.default_allow = sets.default_action == policy::Action::Allow,
                 .intercept = false,
                 .deny = networks_of(sets.deny),
                 .allow = networks_of(sets.allow)};
  if (const std::size_t count = out.deny.size() + out.allow.size(); count > kMostPolicyNetworks) return refuse(count);
  return out;
}

void put_policies(NftBatch& batch, const NetworkConfig& config, std::int32_t priority) {
  const char* chain = "policies";
  batch.add_set(kRestricted, kSourceKey);
  batch.add_set(kDefaultAllow, kSourceKey);
  batch.add_set(kIntercepted, kSourceKey);
  batch.add_set(kJudged, kSourceKey);
  batch.add_timed_set(kOpened, kPairKey);
  batch.add_timed_set(kKept, kPairKey);
  batch.add_chain(kRefuse);
  batch.add_rule(kRefuse, std::move(NftRule().tcp().reset()));
  batch.add_rule(kRefuse, std::move(NftRule().prohibited()));
  for (const NetworkSet& set : kNetworkSets) put_network_chain(batch, set);

  batch.add_chain({.name = chain, .hook = NF_INET_PRE_ROUTING, .priority = priority});
  batch.add_rule(chain, std::move(NftRule().input_interface(config.interface_prefix, false).accept()));
  // Permitted when it began.
  batch.add_rule(chain, std::move(NftRule().connection_answered().ipv4().in_set(kJudged, kSourceKey, false).accept()));
  batch.add_rule(chain, std::move(NftRule().connection_answered().connection_reply().accept()));
  batch.add_rule(chain, std::move(NftRule().ipv4().in_set(kRestricted, kSourceKey, false).accept()));
  batch.add_rule(chain, std::move(NftRule().ipv4().icmp().connection_related().accept()));
  batch.add_rule(chain, std::move(NftRule().connection_invalid().drop()));
  if (config.egress_port != 0) {
    for_names([&](const auto& question) { batch.add_rule(chain, std::move(question(ipv4()).accept())); });
  } else {
    for_names([&](const auto& question) { batch.add_rule(chain, std::move(question(ipv4()).jump(kRefuse))); });
  }
  batch.add_rule(chain, std::move(NftRule().ipv4().udp().destination_port(kNamesOverTls).jump(kRefuse)));
  batch.add_rule(chain, std::move(NftRule().ipv4().tcp().destination_port(kNamesOverTls).jump(kRefuse)));
  batch.add_rule(
      chain, std::move(NftRule().ipv4().in_set(kIntercepted, kSourceKey).udp().destination_port(kHttps).jump(kRefuse)));
  if (config.intercept_port == 0) {
    for (const std::uint16_t port : {kHttp, kHttps}) {
      batch.add_rule(
          chain,
          std::move(NftRule().ipv4().in_set(kIntercepted, kSourceKey).tcp().destination_port(port).jump(kRefuse)));
    }
  }
  jump_to_networks(batch, chain, true);
  batch.add_rule(chain, std::move(NftRule().ipv4().tcp().in_set(kOpened, kPairKey).accept()));
  batch.add_rule(chain, std::move(NftRule().ipv4().udp().in_set(kOpened, kPairKey).accept()));
  batch.add_rule(chain, std::move(NftRule().connection_answered().ipv4().in_set(kKept, kPairKey).accept()));
  jump_to_networks(batch, chain, false);
  batch.add_rule(chain, std::move(NftRule().ipv4().in_set(kDefaultAllow, kSourceKey).accept()));
  batch.add_rule(chain, std::move(NftRule().jump(kRefuse)));

  if (config.egress_port == 0) return;
  // Before the chains of other tables, which might lead a port of the host elsewhere.
  const char* names = "names";
  batch.add_chain({.name = names, .type = "nat", .hook = NF_INET_PRE_ROUTING, .priority = NF_IP_PRI_NAT_DST - 1});
  for_names([&](const auto& question) {
    batch.add_rule(names,
                   std::move(question(restricted(config)).translate_destination(config.gateway(), config.egress_port)));
  });
  if (config.intercept_port == 0) return;
  for (const std::uint16_t port : {kHttp, kHttps}) {
    batch.add_rule(names, std::move(NftRule()
                                        .input_interface(config.interface_prefix)
                                        .ipv4()
                                        .in_set(kIntercepted, kSourceKey)
                                        .tcp()
                                        .destination_port(port)
                                        .translate_destination(config.gateway(), config.intercept_port)));
  }
}

void accept_name_questions(NftBatch& batch, const NetworkConfig& config, const char* chain) {
  if (config.egress_port == 0) return;
  for_names([&](const auto& question) { batch.add_rule(chain, std::move(question(restricted(config)).accept())); });
}

void accept_led_questions(NftBatch& batch, const NetworkConfig& config, const char* input_chain) {
  if (config.egress_port == 0) return;
  const auto led = [&] {
    return std::move(restricted(config).destination(config.gateway(), 32).connection_translated());
  };
  batch.add_rule(input_chain, std::move(led().udp().destination_port(config.egress_port).accept()));
  batch.add_rule(input_chain, std::move(led().tcp().destination_port(config.egress_port).accept()));
  if (config.intercept_port != 0)
    batch.add_rule(input_chain, std::move(led().tcp().destination_port(config.intercept_port).accept()));
}

void drop_forwarded_questions(NftBatch& batch, const NetworkConfig& config, const char* forward_chain) {
  for_names(
      [&](const auto& question) { batch.add_rule(forward_chain, std::move(question(restricted(config)).drop())); });
}

void put_process_limits(NftBatch& batch, const NetworkConfig& config) {
  if (config.intercept_port == 0) return;
  const char* chain = "egress_process";
  const char* judged = "egress_process_to";
  batch.add_chain(judged);
  batch.add_chain({.name = chain, .hook = NF_INET_LOCAL_OUT, .priority = NF_IP_PRI_FILTER});
  batch.add_rule(chain, std::move(NftRule().socket_owner(config.egress_id()).jump(judged)));
  const auto to = [](const Subnet& network) {
    return std::move(NftRule().ipv4().destination(network.base, network.prefix_length));
  };
  batch.add_rule(judged, std::move(NftRule().connection_established().accept()));
  for_names([&](const auto& question) { batch.add_rule(judged, std::move(question(NftRule()).accept())); });
  for (const auto& [address, port] : config.egress_resolvers) {
    batch.add_rule(judged, std::move(ipv4().destination(address, 32).udp().destination_port(port).accept()));
    batch.add_rule(judged, std::move(ipv4().destination(address, 32).tcp().destination_port(port).accept()));
  }
  for (const auto& [address, port] : config.egress_reports) {
    NftRule report = ipv4();
    if (address) report.destination(*address, 32);
    batch.add_rule(judged, std::move(report.tcp().destination_port(port).accept()));
  }
  batch.add_rule(judged, std::move(NftRule().ipv6().jump(kRefuse)));
  batch.add_rule(judged, std::move(ipv4().destination_type(RTN_LOCAL).jump(kRefuse)));
  batch.add_rule(judged, std::move(to(config.subnet).jump(kRefuse)));
  for (const Subnet& network : config.blocked) batch.add_rule(judged, std::move(to(network).jump(kRefuse)));
  for (const Subnet& network : config.allowed_metadata) batch.add_rule(judged, std::move(to(network).accept()));
  for (const Subnet& network : metadata_networks()) batch.add_rule(judged, std::move(to(network).jump(kRefuse)));
  if (config.allow_private_networks) return;
  for (const Subnet& network : config.allowed_networks) batch.add_rule(judged, std::move(to(network).accept()));
  for (const Subnet& network : private_networks()) batch.add_rule(judged, std::move(to(network).jump(kRefuse)));
}

void change_policy(NftBatch& batch, std::uint32_t sandbox, const SlotPolicy* before, const SlotPolicy* next) {
  change_membership(batch, kRestricted, sandbox, before != nullptr, next != nullptr);
  change_membership(batch, kDefaultAllow, sandbox, before != nullptr && before->default_allow,
                    next != nullptr && next->default_allow);
  change_membership(batch, kIntercepted, sandbox, before != nullptr && before->intercept,
                    next != nullptr && next->intercept);
  for (const NetworkSet& set : kNetworkSets) {
    const std::vector<Network> old = part(before, set);
    const std::vector<Network> fresh = part(next, set);
    batch.delete_elements(set.networks, only_in_first(sandbox, old, fresh));
    batch.add_elements(set.networks, only_in_first(sandbox, fresh, old));
    change_membership(batch, set.sandboxes, sandbox, !old.empty(), !fresh.empty());
  }
}

void judge_again(NftBatch& batch, std::uint32_t sandbox, bool on) {
  if (on) {
    batch.add_elements(kJudged, {address_element(sandbox)});
  } else {
    batch.delete_elements(kJudged, {address_element(sandbox)});
  }
}

void keep_connections(NftBatch& batch, std::uint32_t sandbox, std::span<const OpenedAddress> addresses) {
  std::vector<NftElement> elements;
  for (const OpenedAddress& each : addresses) elements.push_back(pair_element(sandbox, each));
  batch.add_elements(kKept, elements);
}

void open_addresses(NftBatch& batch, std::uint32_t sandbox, std::span<const OpenedAddress> addresses, bool known) {
  std::vector<NftElement> elements;
  for (const OpenedAddress& each : addresses) elements.push_back(pair_element(sandbox, each));
  batch.add_elements(kOpened, elements);
  if (!known) return;
  batch.delete_elements(kOpened, elements);
  batch.add_elements(kOpened, elements);
}

void close_addresses(NftBatch& batch, std::uint32_t sandbox, std::span<const std::uint32_t> addresses) {
  std::vector<NftElement> elements;
  for (const std::uint32_t address : addresses)
    elements.push_back(pair_element(sandbox, {.address = address, .lifetime = std::chrono::seconds(60)}));
  // Added first, so that there is one to delete.
  batch.add_elements(kOpened, elements);
  batch.delete_elements(kOpened, elements);
}

}  // namespace osb::sandboxd
