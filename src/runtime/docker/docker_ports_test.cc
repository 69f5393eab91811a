#include "runtime/docker/docker_ports.h"

#include <gtest/gtest.h>

namespace osb::runtime {
namespace {

DockerPorts ports(DockerReach reach, const std::string& address, std::uint16_t execd, std::uint16_t http) {
  return {std::make_shared<const DockerReach>(std::move(reach)), address, {.execd = execd, .http = http}};
}

DockerReach bridge(bool addresses) {
  return {.addresses = addresses, .host_address = "127.0.0.1", .published_host = "127.0.0.1", .public_host = "box"};
}

TEST(DockerPortsTest, ALocalEngineIsAskedAtTheContainersAddress) {
  const DockerPorts local = ports(bridge(true), "172.17.0.2", 40001, 40002);
  EXPECT_EQ(local.route(44772).origin, "172.17.0.2:44772");
  EXPECT_EQ(local.route(8000).origin, "172.17.0.2:8000");
  EXPECT_EQ(local.route(8000).path, "");
}

TEST(DockerPortsTest, PortsThatAreNotPublishedGoThroughExecd) {
  const DockerPorts remote = ports(bridge(false), "172.17.0.2", 40001, 40002);
  EXPECT_EQ(remote.route(44772).origin, "127.0.0.1:40001");
  EXPECT_EQ(remote.route(44772).path, "");
  EXPECT_EQ(remote.route(8080).origin, "127.0.0.1:40002");
  EXPECT_EQ(remote.route(8080).path, "");
  EXPECT_EQ(remote.route(8000).origin, "127.0.0.1:40001");
  EXPECT_EQ(remote.route(8000).path, "/proxy/8000");
}

TEST(DockerPortsTest, ClientsAreGivenPublishedPorts) {
  const DockerPorts published = ports(bridge(true), "172.17.0.2", 40001, 40002);
  EXPECT_EQ(published.client_route(44772).endpoint, "box:40001/proxy/44772");
  EXPECT_EQ(published.client_route(8000).endpoint, "box:40001/proxy/8000");
  EXPECT_TRUE(published.client_route(8000).through_execd);
  EXPECT_EQ(published.client_route(8080).endpoint, "box:40002");
  EXPECT_FALSE(published.client_route(8080).through_execd);
  EXPECT_EQ(ports(bridge(true), "172.17.0.2", 0, 0).client_route(8000).endpoint, "");
}

TEST(DockerPortsTest, ThePolicyApiIsReachedByTheServerOnlyAndNeverThroughExecd) {
  const HostPorts published{.execd = 40001, .http = 40002, .egress = 40003, .has_policy = true};
  for (const bool addresses : {true, false}) {
    const DockerPorts with(std::make_shared<const DockerReach>(bridge(addresses)), "172.17.0.2", published);
    EXPECT_EQ(with.route(18080).origin, addresses ? "172.17.0.2:18080" : "127.0.0.1:40003");
    EXPECT_EQ(with.route(18080).path, "");
    EXPECT_EQ(with.client_route(18080).endpoint, "");
  }
  EXPECT_EQ(ports(bridge(false), "172.17.0.2", 40001, 40002).route(18080).path, "/proxy/18080")
      << "without a policy it is a port like any other";
}

TEST(DockerPortsTest, OnTheHostsNetworkPortsAreTheHosts) {
  DockerReach host = bridge(true);
  host.host_network = true;
  const DockerPorts shared = ports(host, "127.0.0.1", 0, 0);
  EXPECT_EQ(shared.route(8000).origin, "127.0.0.1:8000");
  EXPECT_EQ(shared.client_route(8000).endpoint, "box:8000");
  EXPECT_FALSE(shared.client_route(8000).through_execd);
  EXPECT_TRUE(shared.client_route(44772).through_execd);
}

TEST(DockerPortsTest, AnIpv6HostIsWrittenInBrackets) {
  DockerReach reach = bridge(false);
  reach.published_host = "::1";
  EXPECT_EQ(ports(reach, "", 40001, 0).route(44772).origin, "[::1]:40001");
}

}  // namespace
}  // namespace osb::runtime
