#include "sandboxd/network/network_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::sandboxd {
namespace {

using ::testing::HasSubstr;

TEST(NetworkConfig, SubnetsAreReadStrictly) {
  const auto subnet = parse_subnet("10.90.0.0/16");
  ASSERT_TRUE(subnet);
  EXPECT_EQ(subnet->base, 0x0a5a0000U);
  EXPECT_EQ(subnet->prefix_length, 16U);
  EXPECT_EQ(format_subnet(*subnet), "10.90.0.0/16");
  EXPECT_TRUE(parse_subnet("0.0.0.0/0"));
  for (const char* wrong : {"", "10.90.0.0", "10.90.0.0/", "10.90.0.0/33", "10.90.0.0/-1", "10.90.0.0/16x", "10.90/16",
                            "10.90.0.1/16", "::/16", "/16"})
    EXPECT_FALSE(parse_subnet(wrong)) << wrong;
  EXPECT_THAT(parse_subnet("10.90.0.1/16").error().message, HasSubstr("10.90.0.0/16 is meant?"));
}

TEST(NetworkConfig, CapacityIsLimitedByAddressesAndByIds) {
  NetworkConfig config;
  EXPECT_EQ(config.capacity(), 65519U) << "ids end before addresses do";
  EXPECT_LE(std::uint64_t{config.id_base(config.capacity() - 1)} + 65535, 0xfffffffeU);
  config.subnet.prefix_length = 24;
  EXPECT_EQ(config.capacity(), 253U);
  EXPECT_EQ(format_ipv4(config.gateway()), "10.90.0.1");
  EXPECT_EQ(format_ipv4(config.address(0)), "10.90.0.2");
  EXPECT_EQ(format_ipv4(config.address(config.capacity() - 1)), "10.90.0.254");
}

TEST(NetworkConfig, MistakesAreNamed) {
  struct {
    const char* field;
    void (*spoil)(NetworkConfig&);
  } rows[] = {
      {"network.subnet", [](NetworkConfig& c) { c.subnet.prefix_length = 30; }},
      {"network.subnet", [](NetworkConfig& c) { c.subnet = {.base = 0, .prefix_length = 0}; }},
      {"network.first_id", [](NetworkConfig& c) { c.first_id = 1000; }},
      {"network.first_id", [](NetworkConfig& c) { c.first_id = 0xffff8000; }},
      {"network.mtu", [](NetworkConfig& c) { c.mtu = 68; }},
      {"network.interface_prefix", [](NetworkConfig& c) { c.interface_prefix = ""; }},
      {"network.interface_prefix", [](NetworkConfig& c) { c.interface_prefix = "sandbox-interface-"; }},
      {"network.interface_prefix", [](NetworkConfig& c) { c.interface_prefix = "osb1"; }},
      {"network.interface_prefix", [](NetworkConfig& c) { c.interface_prefix = "a/b"; }},
      {"network.table", [](NetworkConfig& c) { c.table = ""; }},
      {"network.dns", [](NetworkConfig& c) { c.dns = {"::1"}; }},
      {"network.allowed_networks",
       [](NetworkConfig& c) { c.allowed_networks = {{.base = 0xa9fea9fe, .prefix_length = 32}}; }},
      {"network.allowed_metadata",
       [](NetworkConfig& c) { c.allowed_metadata = {{.base = 0x0a000000, .prefix_length = 8}}; }},
  };
  EXPECT_TRUE(validate(NetworkConfig()));
  for (const auto& row : rows) {
    NetworkConfig config;
    row.spoil(config);
    const auto result = validate(config);
    ASSERT_FALSE(result) << row.field;
    EXPECT_THAT(result.error().message, HasSubstr(row.field));
  }
}

}  // namespace
}  // namespace osb::sandboxd
