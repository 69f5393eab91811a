#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kernel/netlink.h"

// rtnetlink for IPv4. Addresses are in host byte order. The functions that take a batch only add to it;
// NetlinkSocket::run sends it.
namespace osb::kernel {

using MacAddress = std::array<std::uint8_t, 6>;

struct VethPair {
  std::string name;
  MacAddress mac{};
  std::string peer_name;
  MacAddress peer_mac{};
  int peer_netns = -1;  // the peer is born there: nothing is ever moved
  unsigned mtu = 1500;
};
void add_veth(NetlinkBatch& batch, const VethPair& pair);

// An absent value stays as it is.
struct LinkChange {
  std::optional<bool> up = {};
  std::optional<bool> arp = {};
  std::optional<int> rp_filter = {};
  std::optional<bool> route_localnet = {};
  bool no_ipv6_address = false;  // no link-local address when it comes up; the kernel must have IPv6
};
void change_link(NetlinkBatch& batch, unsigned index, const LinkChange& change);
void delete_link(NetlinkBatch& batch, unsigned index);

void add_address(NetlinkBatch& batch, unsigned index, std::uint32_t address, unsigned prefix_length,
                 std::uint8_t scope);
void delete_address(NetlinkBatch& batch, unsigned index, std::uint32_t address, unsigned prefix_length);

// A route of the main table.
struct Route {
  std::uint32_t destination = 0;
  unsigned prefix_length = 0;
  unsigned index = 0;  // interface
  std::uint32_t gateway = 0;
  std::uint32_t source = 0;  // preferred source address
  bool onlink = false;       // the gateway is reachable though no route says so
  std::uint8_t type = 1;     // RTN_UNICAST; RTN_UNREACHABLE has no interface
  std::uint8_t scope = 0;    // RT_SCOPE_UNIVERSE
  std::uint8_t table = 254;  // RT_TABLE_MAIN
};
void add_route(NetlinkBatch& batch, const Route& route);  // replaces an equal one
void delete_route(NetlinkBatch& batch, const Route& route);

void add_permanent_neighbour(NetlinkBatch& batch, unsigned index, std::uint32_t address, const MacAddress& mac);

struct Link {
  unsigned index = 0;
  std::string name;
  unsigned mtu = 0;
  bool running = false;  // up, and so is what it is connected to: packets pass
  std::optional<int> peer_netns_id;
  std::uint64_t packets = 0;  // received and sent
};
// Code::NotFound (ENODEV) if there is none.
Result<Link> find_link(NetlinkSocket& socket, const std::string& name);
Result<std::vector<Link>> list_links(NetlinkSocket& socket, std::string_view name_prefix);
// Every table: where several daemons and VPNs put theirs differs.
Result<std::vector<Route>> list_routes(NetlinkSocket& socket);
// The number by which this socket's namespace knows another one (Link::peer_netns_id); none if it does not.
Result<std::optional<int>> namespace_id(NetlinkSocket& socket, int netns_fd);

// News about links of one namespace, from the moment it is opened.
class LinkMonitor {
 public:
  static Result<LinkMonitor> open();  // in the namespace of the calling thread
  // Calls `done` now and after each piece of news, until it returns true. Code::Timeout otherwise.
  Result<void> wait(const std::function<Result<bool>()>& done, std::chrono::milliseconds timeout);

 private:
  explicit LinkMonitor(NetlinkSocket socket) : socket_(std::move(socket)) {}
  NetlinkSocket socket_;
};

}  // namespace osb::kernel
