#include "sandboxd/network/network_fixture.h"

#include "kernel/nftables.h"

namespace osb::sandboxd::testing {
namespace {

std::uint16_t header_checksum(const std::uint8_t* header) {
  std::uint32_t sum = 0;
  for (int i = 0; i < 20; i += 2) sum += static_cast<std::uint32_t>(header[i] << 8 | header[i + 1]);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

void append(std::vector<std::uint8_t>& out, std::uint64_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out.push_back(static_cast<std::uint8_t>(value >> shift));
}

}  // namespace

void inject_udp(const Slot& slot, std::uint32_t source, std::uint32_t destination, std::uint16_t port,
                const std::string& text) {
  auto route = must(kernel::NetlinkSocket::open_in(slot.netns.get(), NETLINK_ROUTE));
  const kernel::Link inside = must(kernel::find_link(route, "eth0"));
  std::vector<std::uint8_t> packet;
  append(packet, 0x45000000 | (28 + text.size()), 4);  // version, length
  append(packet, 0x00004000, 4);                       // no fragment
  append(packet, 64 << 24 | IPPROTO_UDP << 16, 4);     // ttl, protocol, checksum (below)
  append(packet, source, 4);
  append(packet, destination, 4);
  const std::uint16_t sum = header_checksum(packet.data());
  packet[10] = static_cast<std::uint8_t>(sum >> 8);
  packet[11] = static_cast<std::uint8_t>(sum);
  append(packet, 4444, 2);
  append(packet, port, 2);
  append(packet, 8 + text.size(), 2);
  append(packet, 0, 2);  // no checksum
  packet.insert(packet.end(), text.begin(), text.end());

  const UniqueFd fd = socket_in(slot.netns.get(), SOCK_DGRAM, AF_PACKET, htons(ETH_P_IP));
  sockaddr_ll where{};
  where.sll_family = AF_PACKET;
  where.sll_protocol = htons(ETH_P_IP);
  where.sll_ifindex = static_cast<int>(inside.index);
  where.sll_halen = 6;
  const std::uint8_t host_mac[] = {0x02, 0x6f, 0x73, 0x62, 0x00, 0x01};
  std::memcpy(where.sll_addr, host_mac, sizeof host_mac);
  if (::sendto(fd.get(), packet.data(), packet.size(), 0, reinterpret_cast<const sockaddr*>(&where), sizeof where) < 0)
    throw std::runtime_error("inject: " + std::string(std::strerror(errno)));
}

NetworkConfig World::small_config() {
  NetworkConfig config;
  config.subnet = must(parse_subnet("10.90.0.0/24"));
  // Ranges of other test programs that run at the same time do not matter: ids are no names.
  config.ready_slots = 2;
  return config;
}

World::World(NetworkConfig wanted) : config(std::move(wanted)), host(this_network()), internet(new_network()) {
  auto here = must(kernel::NetlinkSocket::open(NETLINK_ROUTE));
  auto there = must(kernel::NetlinkSocket::open_in(internet.get(), NETLINK_ROUTE));
  kernel::NetlinkBatch pair;
  kernel::add_veth(pair, {.name = "uplink",
                          .mac = {2, 0, 0, 0, 0, 2},
                          .peer_name = "peer",
                          .peer_mac = {2, 0, 0, 0, 0, 1},
                          .peer_netns = internet.get(),
                          .mtu = 1400});
  must(here.run(pair));
  const unsigned uplink = must(kernel::find_link(here, "uplink")).index;
  const unsigned peer = must(kernel::find_link(there, "peer")).index;
  auto monitor = must(kernel::LinkMonitor::open());
  kernel::NetlinkBatch ours;
  kernel::change_link(ours, must(kernel::find_link(here, "lo")).index, {.up = true});
  kernel::change_link(ours, uplink, {.up = true, .no_ipv6_address = true});
  kernel::add_address(ours, uplink, kHostAddress, 24, RT_SCOPE_UNIVERSE);
  kernel::add_route(ours, {.index = uplink, .gateway = kInternetNeighbour});
  must(here.run(ours));
  const unsigned lo = must(kernel::find_link(there, "lo")).index;
  kernel::NetlinkBatch theirs;
  kernel::change_link(theirs, lo, {.up = true});
  kernel::change_link(theirs, peer, {.up = true, .no_ipv6_address = true});
  kernel::add_address(theirs, peer, kInternetNeighbour, 24, RT_SCOPE_UNIVERSE);
  kernel::add_address(theirs, lo, kServer, 32, RT_SCOPE_UNIVERSE);
  kernel::add_address(theirs, lo, kMetadata, 32, RT_SCOPE_UNIVERSE);
  must(there.run(theirs));
  must(monitor.wait([&]() -> Result<bool> { return must(kernel::find_link(here, "uplink")).running; }, kLong));
}

void World::start() {
  firewall = must(Firewall::open(config));
  must(firewall->install());
  pool = must(SlotPool::create(config, *firewall));
  must(pool->start());
}

void World::restart() {
  pool.reset();
  firewall.reset();
  firewall = must(Firewall::open(config));
  pool = must(SlotPool::create(config, *firewall));
}

std::vector<std::string> World::our_links() {
  auto route = must(kernel::NetlinkSocket::open(NETLINK_ROUTE));
  std::vector<std::string> names;
  for (const kernel::Link& link : must(kernel::list_links(route, config.interface_prefix))) names.push_back(link.name);
  return names;
}

std::size_t World::elements(const std::string& set) {
  auto netfilter = must(kernel::NetlinkSocket::open(NETLINK_NETFILTER));
  return must(kernel::list_elements(netfilter, config.table, set)).size();
}

void World::wait_for_links(std::size_t kept) {
  auto monitor = must(kernel::LinkMonitor::open());
  must(monitor.wait([&]() -> Result<bool> { return our_links().size() == kept; }, std::chrono::seconds(30)));
}

}  // namespace osb::sandboxd::testing
