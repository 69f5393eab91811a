#include "cli/local/service_network.h"

#include <gtest/gtest.h>

namespace osb::cli {
namespace {

std::string route(const char* name, const char* destination, const char* mask, const char* flags = "0001") {
  return std::string("Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n") + name +
         "\t" + destination + "\t00000000\t" + flags + "\t0\t0\t0\t" + mask + "\t0\t0\t0\n";
}

TEST(ServiceNetwork, NumbersDoNotOverlap) {
  EXPECT_EQ(subnet_of(0), "10.91.0.0/16");
  EXPECT_EQ(gateway_address_of(0), "10.91.0.1");
  EXPECT_EQ(subnet_of(kServiceNetworks - 1), "10.99.0.0/16");
  EXPECT_EQ(first_id_of(0), 1073741824U) << "as older versions had it";
  for (unsigned network = 1; network < kServiceNetworks; ++network) {
    EXPECT_GE(first_id_of(network) - first_id_of(network - 1), 2048U * 65536U);
  }
  EXPECT_LE(first_id_of(kServiceNetworks - 1), std::uint32_t{1} << 31) << "sandboxd takes no higher one";
}

TEST(ServiceNetwork, RoutesOfOtherInterfacesAreInTheWay) {
  struct {
    const char* why;
    std::string routes;
    const char* expected;
  } rows[] = {
      {"nothing", "", ""},
      {"an address in it", route("tun0", "05045B0A", "FFFFFFFF"), "tun0 (10.91.4.5/32)"},
      {"a network around it", route("eth1", "0000000A", "000000FF"), "eth1 (10.0.0.0/8)"},
      {"the same network", route("eth1", "00005B0A", "0000FFFF"), "eth1 (10.91.0.0/16)"},
      {"a neighbour", route("eth1", "00005C0A", "0000FFFF"), ""},
      {"the default route", route("eth0", "00000000", "00000000"), ""},
      {"half of a default route", route("tun0", "00000000", "00000080"), ""},
      {"a refusal", route("*", "00005B0A", "0000FFFF", "0201"), ""},
      {"an interface of the service", route("osl12ab-3", "05045B0A", "FFFFFFFF"), ""},
  };
  for (const auto& row : rows) EXPECT_EQ(route_in_the_way(row.routes, 0, "osl12ab-"), row.expected) << row.why;
}

}  // namespace
}  // namespace osb::cli
