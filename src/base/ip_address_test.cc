#include "base/ip_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb {
namespace {

using ::testing::ElementsAre;

std::string round_trip(std::string_view text) {
  const auto address = parse_ip_address(text);
  return address ? format_ip_address(*address) : "none";
}

TEST(IpAddress, ParsesDigitsOnly) {
  EXPECT_EQ(round_trip("1.2.3.4"), "1.2.3.4");
  EXPECT_EQ(round_trip("2001:DB8::1"), "2001:db8::1");
  EXPECT_EQ(round_trip("::"), "::");
  EXPECT_EQ(round_trip("::ffff:10.0.0.1"), "10.0.0.1") << "the kernel connects to the IPv4 address";
  for (const std::string_view text :
       {std::string_view("1.2.3"), std::string_view("1.2.3.04"), std::string_view("256.1.1.1"),
        std::string_view("fe80::1%eth0"), std::string_view("[::1]"), std::string_view(" 1.2.3.4"), std::string_view(""),
        std::string_view("1.2.3.4\0", 8), std::string_view("0x7f.1")}) {
    EXPECT_FALSE(parse_ip_address(text)) << text;
  }
}

TEST(IpPrefix, ContainsItsAddressesAndNoOthers) {
  const auto ten = *parse_ip_prefix("10.1.2.3/8");
  EXPECT_EQ(format_ip_prefix(ten), "10.0.0.0/8") << "host bits are cleared";
  EXPECT_TRUE(ten.contains(*parse_ip_address("10.255.0.1")));
  EXPECT_FALSE(ten.contains(*parse_ip_address("11.0.0.1")));
  EXPECT_TRUE(parse_ip_prefix("0.0.0.0/0")->contains(*parse_ip_address("9.9.9.9")));
  EXPECT_FALSE(parse_ip_prefix("::/0")->contains(*parse_ip_address("9.9.9.9"))) << "another family";
  EXPECT_FALSE(parse_ip_prefix("0.0.0.0/0")->contains(*parse_ip_address("2001:db8::1")));
  const auto odd = *parse_ip_prefix("2001:db8:8000::/33");
  EXPECT_TRUE(odd.contains(*parse_ip_address("2001:db8:ffff::1")));
  EXPECT_FALSE(odd.contains(*parse_ip_address("2001:db8:7fff::1")));
  EXPECT_TRUE(ten.contains(*parse_ip_prefix("10.2.0.0/16")));
  EXPECT_FALSE(parse_ip_prefix("10.2.0.0/16")->contains(ten));
}

TEST(IpPrefix, MappedNetworksAreIpv4OnlyWhenTheyHoldNothingElse) {
  EXPECT_EQ(format_ip_prefix(*parse_ip_prefix("::ffff:10.0.0.0/104")), "10.0.0.0/8");
  EXPECT_EQ(format_ip_prefix(*parse_ip_prefix("::ffff:10.0.0.0/64")), "::/64");
}

TEST(IpPrefix, RefusesOtherTexts) {
  for (const char* text : {"10.0.0.0", "10.0.0.0/33", "10.0.0.0/08", "10.0.0.0/", "10.0.0.0/-1", "::/129", "/8", "a/8",
                           "10.0.0.0/8/8", "10.0.0.0/+8"}) {
    EXPECT_FALSE(parse_ip_prefix(text)) << text;
  }
}

TEST(IpPrefix, OverlapsGoIntoTheWiderNetwork) {
  std::vector<IpPrefix> given;
  for (const char* text : {"100.100.2.136/32", "10.0.0.0/8", "100.64.0.0/10", "2001:db8::/32", "10.0.0.0/8",
                           "2001:db8:1::/48", "10.0.0.0/24", "9.0.0.0/8"}) {
    given.push_back(*parse_ip_prefix(text));
  }
  std::vector<std::string> left;
  for (const IpPrefix& prefix : without_overlaps(given)) left.push_back(format_ip_prefix(prefix));
  EXPECT_THAT(left, ElementsAre("9.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "2001:db8::/32"));
}

TEST(IpAddress, PublicAddressesAreThoseOfTheInternet) {
  for (const char* text : {"1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::8.8.8.8"}) {
    EXPECT_TRUE(is_public(*parse_ip_address(text))) << text;
  }
  for (const char* text : {"0.0.0.0",     "10.0.0.1",     "100.100.100.200", "127.0.0.1",         "169.254.169.254",
                           "172.16.0.1",  "192.168.1.1",  "224.0.0.1",       "255.255.255.255",   "168.63.129.16",
                           "::",          "::1",          "fe80::1",         "fd00:ec2::254",     "ff02::1",
                           "2001:db8::1", "2002:a00:1::", "2001::1",         "64:ff9b::10.0.0.1", "::ffff:10.0.0.1",
                           "::10.0.0.1"}) {
    EXPECT_FALSE(is_public(*parse_ip_address(text))) << text;
  }
}

}  // namespace
}  // namespace osb
