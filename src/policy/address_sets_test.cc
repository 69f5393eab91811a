#include "policy/address_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/matcher.h"

namespace osb::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string show(const AddressRange& range) {
  return format_ip_address(range.first) + "-" + format_ip_address(range.last);
}
std::vector<std::string> show(const std::vector<AddressRange>& ranges) {
  std::vector<std::string> out;
  for (const AddressRange& range : ranges) out.push_back(show(range));
  return out;
}
std::vector<std::string> show(const std::vector<PortRange>& ranges) {
  std::vector<std::string> out;
  for (const PortRange& range : ranges) out.push_back(show(range.addresses) + ":" + std::to_string(range.port));
  return out;
}

AddressRange range(std::string_view first, std::string_view last) {
  return {.first = *parse_ip_address(first), .last = *parse_ip_address(last)};
}

std::vector<std::string> networks(std::string_view first, std::string_view last) {
  std::vector<std::string> out;
  for (const IpPrefix& prefix : prefixes(range(first, last))) out.push_back(format_ip_prefix(prefix));
  return out;
}

TEST(PolicyAddressSets, AnAddressInsideANetworkAddsNothing) {
  const AddressSets sets = address_sets(*parse_policy(R"({"egress":[
      {"action":"allow","target":"100.64.0.0/10"},{"action":"allow","target":"100.100.2.136"}]})"));
  EXPECT_THAT(show(sets.allow.v4), ElementsAre("100.64.0.0-100.127.255.255"));
  EXPECT_TRUE(sets.deny.empty());
  EXPECT_EQ(sets.default_action, Action::Deny);
}

TEST(PolicyAddressSets, NeighboursAndOverlapsAreJoined) {
  const AddressSets sets = address_sets(*parse_policy(R"({"egress":[
      {"action":"allow","target":"10.0.1.0/24"},{"action":"allow","target":"10.0.0.0/24"},
      {"action":"allow","target":"10.0.0.0/24"},{"action":"allow","target":"10.0.3.0/24"},
      {"action":"allow","target":"255.255.255.255"},{"action":"allow","target":"240.0.0.0/4"},
      {"action":"allow","target":"2001:db8::/33"},{"action":"allow","target":"2001:db8:8000::/33"}]})"));
  EXPECT_THAT(show(sets.allow.v4),
              ElementsAre("10.0.0.0-10.0.1.255", "10.0.3.0-10.0.3.255", "240.0.0.0-255.255.255.255"));
  EXPECT_THAT(show(sets.allow.v6), ElementsAre("2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"));
}

TEST(PolicyAddressSets, TheOperatorsDenyIsInTheDenySetBesideTheUsersAllow) {
  const Overlays overlays{.deny = *parse_overlay("9.9.9.9\nevil.example\n", Action::Deny),
                          .allow = *parse_overlay("192.0.2.1\n", Action::Allow)};
  const AddressSets sets =
      address_sets(*parse_policy(R"({"egress":[{"action":"allow","target":"9.9.9.9"}]})"), overlays);
  EXPECT_THAT(show(sets.deny.v4), ElementsAre("9.9.9.9-9.9.9.9"));
  EXPECT_THAT(show(sets.allow.v4), ElementsAre("9.9.9.9-9.9.9.9", "192.0.2.1-192.0.2.1"));
}

TEST(PolicyAddressSets, AnAllowingDefaultHasOnlyTheDeniedAddresses) {
  const AddressSets sets = address_sets(*parse_policy(R"({"defaultAction":"allow","egress":[
      {"action":"deny","target":"*.github.com"},{"action":"deny","target":"10.0.0.0/8"}]})"));
  EXPECT_EQ(sets.default_action, Action::Allow);
  EXPECT_THAT(show(sets.deny.v4), ElementsAre("10.0.0.0-10.255.255.255"));
  EXPECT_EQ(sets.deny.size(), 1U);
  EXPECT_TRUE(sets.allow.empty());
}

TEST(PolicyAddressSets, PortsAreJoinedForEachPortAndLeftOutWhereAllAreOpen) {
  const AddressSets sets = address_sets(*parse_policy(R"({"egress":[
      {"action":"allow","target":"10.0.0.0/24","ports":[443,80]},
      {"action":"allow","target":"10.0.1.0/24","ports":[443]},
      {"action":"allow","target":"192.0.2.0/24"},{"action":"allow","target":"192.0.2.7","ports":[22]}]})"));
  EXPECT_THAT(show(sets.allow.tcp_v4), ElementsAre("10.0.0.0-10.0.0.255:80", "10.0.0.0-10.0.1.255:443"));
  EXPECT_THAT(show(sets.allow.v4), ElementsAre("192.0.2.0-192.0.2.255"));
}

TEST(PolicyAddressSets, PortsWithoutATargetAreForEveryAddress) {
  const AddressSets sets = address_sets(*parse_policy(R"({"egress":[{"action":"deny","ports":[25]}]})"));
  EXPECT_THAT(show(sets.deny.tcp_v4), ElementsAre("0.0.0.0-255.255.255.255:25"));
  EXPECT_THAT(show(sets.deny.tcp_v6), ElementsAre("::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:25"));
  EXPECT_THAT(sets.deny.v4, IsEmpty());
}

TEST(PolicyAddressSets, EveryAddressOfBothFamilies) {
  const AddressSets sets = address_sets(*parse_policy(R"({"egress":[
      {"action":"allow","target":"0.0.0.0/0"},{"action":"allow","target":"::/0"},
      {"action":"allow","target":"::ffff:10.0.0.1"}]})"));
  EXPECT_THAT(show(sets.allow.v4), ElementsAre("0.0.0.0-255.255.255.255"));
  EXPECT_THAT(show(sets.allow.v6), ElementsAre("::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"));
}

TEST(PolicyAddressSets, ARangeIsTheFewestNetworks) {
  EXPECT_THAT(networks("10.0.0.0", "10.0.0.255"), ElementsAre("10.0.0.0/24"));
  EXPECT_THAT(networks("10.0.0.1", "10.0.0.1"), ElementsAre("10.0.0.1/32"));
  EXPECT_THAT(networks("10.0.0.1", "10.0.0.6"),
              ElementsAre("10.0.0.1/32", "10.0.0.2/31", "10.0.0.4/31", "10.0.0.6/32"));
  EXPECT_THAT(networks("0.0.0.0", "255.255.255.255"), ElementsAre("0.0.0.0/0"));
  EXPECT_THAT(networks("255.255.255.254", "255.255.255.255"), ElementsAre("255.255.255.254/31"));
  EXPECT_THAT(networks("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), ElementsAre("::/0"));
  EXPECT_THAT(networks("2001:db8::", "2001:db8:2:ffff:ffff:ffff:ffff:ffff"),
              ElementsAre("2001:db8::/47", "2001:db8:2::/48"));
}

// The filter's order, asked by hand, says the same as the matcher.
TEST(PolicyAddressSets, TheSetsSayWhatTheMatcherSays) {
  const Policy policy = *parse_policy(R"({"egress":[
      {"action":"allow","target":"10.0.0.0/8"},{"action":"deny","target":"10.1.0.0/16","ports":[443]},
      {"action":"deny","target":"10.2.0.0/16"},{"action":"allow","ports":[8080]},
      {"action":"allow","target":"10.2.3.4"},{"action":"deny","target":"172.16.0.0/12"}]})");
  const AddressSets sets = address_sets(policy);
  const Matcher matcher(policy);
  const auto holds = [](const AddressSet& set, const IpAddress& address, std::uint16_t port) {
    const auto inside = [&](const AddressRange& r) { return r.first <= address && address <= r.last; };
    return std::ranges::any_of(set.v4, inside) ||
           std::ranges::any_of(set.tcp_v4, [&](const PortRange& r) { return r.port == port && inside(r.addresses); });
  };
  for (const char* text :
       {"10.0.0.1", "10.1.2.3", "10.2.3.4", "10.255.255.255", "9.255.255.255", "172.16.0.1", "8.8.8.8"}) {
    for (const std::uint16_t port : {80, 443, 8080}) {
      const IpAddress address = *parse_ip_address(text);
      const bool allowed = !holds(sets.deny, address, port) && holds(sets.allow, address, port);
      EXPECT_EQ(matcher.address(address, Transport::Tcp, port).allowed(), allowed) << text << ":" << port;
    }
  }
}

}  // namespace
}  // namespace osb::policy
