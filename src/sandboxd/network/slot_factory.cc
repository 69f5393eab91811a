#include "sandboxd/network/slot_factory.h"

#include <algorithm>
#include <charconv>
#include <linux/nsfs.h>
#include <linux/rtnetlink.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "kernel/namespace.h"
#include "kernel/netlink_conntrack.h"
#include "kernel/netlink_sockets.h"
#include "sandboxd/network/host_network.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

constexpr std::uint32_t kIdsPerSlot = 65536;
constexpr const char* kInside = "eth0";
constexpr const char* kDisableIpv6 = "/proc/sys/net/ipv6/conf/default/disable_ipv6";

// Locally administered. Each link has only two ends, so all host ends may have the same address.
constexpr kernel::MacAddress kHostMac = {0x02, 0x6f, 0x73, 0x62, 0x00, 0x01};

kernel::MacAddress mac_of(std::uint32_t address) {
  return {0x02,
          0x53,
          static_cast<std::uint8_t>(address >> 24),
          static_cast<std::uint8_t>(address >> 16),
          static_cast<std::uint8_t>(address >> 8),
          static_cast<std::uint8_t>(address)};
}

// Opens a netlink socket in there and sets what only /proc/sys can: no IPv6 on interfaces to come (loopback keeps ::1,
// which programs expect); and low ports and ping for all users, because only the sandbox is in there.
Result<kernel::NetlinkSocket> enter_and_set_up(const Slot& slot, bool ipv6) {
  return kernel::in_network_namespace(slot.netns.get(), [&]() -> Result<kernel::NetlinkSocket> {
    if (ipv6) {
      if (const auto done = sys::write_text(kDisableIpv6, "1"); !done) return Failure(done.error());
    }
    if (const auto done = sys::write_text("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"); !done)
      return Failure(done.error());
    const std::string groups = fmt::format("{} {}", slot.id_base, slot.id_base + kIdsPerSlot - 1);
    if (const auto done = sys::write_text("/proc/sys/net/ipv4/ping_group_range", groups); !done)
      return Failure(done.error());
    return kernel::NetlinkSocket::open(NETLINK_ROUTE);
  });
}

Result<bool> same_namespace(int a, int b) {
  struct stat first{};
  struct stat second{};
  if (::fstat(a, &first) < 0 || ::fstat(b, &second) < 0) return sys::from_errno("stat namespace", errno);
  return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

// "         0    1048576      65536\n"
bool is_map(std::string_view text, std::uint32_t id_base) {
  std::uint64_t numbers[3] = {};
  std::size_t count = 0;
  const char* end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    if (*at == ' ' || *at == '\n') {
      ++at;
      continue;
    }
    if (count == 3) return false;
    const auto [next, error] = std::from_chars(at, end, numbers[count++]);
    if (error != std::errc()) return false;
    at = next;
  }
  return count == 3 && numbers[0] == 0 && numbers[1] == id_base && numbers[2] == kIdsPerSlot;
}

Result<void> set_rate(kernel::NetlinkSocket& socket, const std::string& interface, std::uint64_t bytes_per_second) {
  const auto link = kernel::find_link(socket, interface);
  if (!link) return Failure(link.error());
  kernel::NetlinkBatch batch;
  if (bytes_per_second != 0)
    kernel::set_send_rate(batch, link->index, queue_of(bytes_per_second));
  else
    kernel::clear_send_rate(batch, link->index);
  const auto done = socket.run(batch);
  const bool was_none = !done && (done.error().sys_errno == ENOENT || done.error().sys_errno == EINVAL);
  if (bytes_per_second == 0 && was_none) return {};
  return done;
}

}  // namespace

SlotFactory::SlotFactory(const NetworkConfig& config, unsigned mtu, bool ipv6, std::unique_ptr<Sockets> sockets)
    : config_(config), mtu_(mtu), ipv6_(ipv6), sockets_(std::move(sockets)) {}

Result<SlotFactory> SlotFactory::open(const NetworkConfig& config) {
  auto route = kernel::NetlinkSocket::open(NETLINK_ROUTE);
  if (!route) return Failure(route.error());
  auto netfilter = kernel::NetlinkSocket::open(NETLINK_NETFILTER);
  if (!netfilter) return Failure(netfilter.error());
  unsigned mtu = config.mtu;
  if (mtu == 0) {
    const auto found = uplink_mtu(*route);
    if (!found) return Failure(found.error());
    mtu = *found;
  }
  const bool ipv6 = ::access(kDisableIpv6, F_OK) == 0;
  std::unique_ptr<Sockets> sockets(
      new Sockets{.mutex = {}, .route = std::move(*route), .netfilter_mutex = {}, .netfilter = std::move(*netfilter)});
  return SlotFactory(config, mtu, ipv6, std::move(sockets));
}

Result<Slot> SlotFactory::make(unsigned index, NetworkMode mode) {
  const std::string what = fmt::format("make network slot {}", index);
  Slot slot{.index = index, .mode = mode, .id_base = config_.id_base(index)};
  auto userns = kernel::make_user_namespace(slot.id_base, kIdsPerSlot);
  if (!userns) return with_context(what, userns.error());
  slot.userns = std::move(*userns);
  auto netns = kernel::make_network_namespace(slot.userns.get());
  if (!netns) return with_context(what, netns.error());
  slot.netns = std::move(*netns);
  auto inside = enter_and_set_up(slot, ipv6_);
  if (!inside) return with_context(what, inside.error());
  const auto lo = kernel::find_link(*inside, "lo");
  if (!lo) return with_context(what, lo.error());
  kernel::NetlinkBatch batch;
  kernel::change_link(batch, lo->index, {.up = true});
  if (const auto done = inside->run(batch); !done) return with_context(what, done.error());
  if (mode == NetworkMode::None) return slot;

  const std::uint32_t address = config_.address(index);
  slot.address = format_ipv4(address);
  slot.interface = config_.interface(index);
  if (const auto done = connect(slot, address, *inside); !done) return with_context(what, done.error());
  return slot;
}

Result<void> SlotFactory::connect(const Slot& slot, std::uint32_t address, kernel::NetlinkSocket& inside) {
  auto monitor = kernel::LinkMonitor::open();
  if (!monitor) return Failure(monitor.error());
  {
    const std::lock_guard lock(sockets_->mutex);
    kernel::NetlinkBatch pair;
    kernel::add_veth(pair, {.name = slot.interface,
                            .mac = kHostMac,
                            .peer_name = kInside,
                            .peer_mac = mac_of(address),
                            .peer_netns = slot.netns.get(),
                            .mtu = mtu_});
    if (const auto done = sockets_->route.run(pair); !done) return done;
    const auto outer = kernel::find_link(sockets_->route, slot.interface);
    if (!outer) return Failure(outer.error());
    kernel::NetlinkBatch host;
    // Both ends know each other from the start, so ARP needs no answers, and a sandbox cannot forge them.
    kernel::change_link(host, outer->index, {.up = true, .arp = false, .rp_filter = 1, .no_ipv6_address = ipv6_});
    kernel::add_route(host, {.destination = address,
                             .prefix_length = 32,
                             .index = outer->index,
                             .source = config_.gateway(),
                             .scope = RT_SCOPE_LINK});
    kernel::add_permanent_neighbour(host, outer->index, address, mac_of(address));
    if (const auto done = sockets_->route.run(host); !done) return done;
  }

  const auto inner = kernel::find_link(inside, kInside);
  if (!inner) return Failure(inner.error());
  kernel::NetlinkBatch batch;
  kernel::add_address(batch, inner->index, address, 32, RT_SCOPE_UNIVERSE);
  kernel::change_link(batch, inner->index, {.up = true});
  kernel::add_permanent_neighbour(batch, inner->index, config_.gateway(), kHostMac);
  kernel::add_route(batch, {.index = inner->index, .gateway = config_.gateway(), .onlink = true});
  if (const auto done = inside.run(batch); !done) return done;

  // The end that came up first gets its queue from a kernel thread a moment after the other one came up; until then it
  // drops what it is given, and a lost first packet of a connection costs its sender a second.
  return monitor->wait(
      [&]() -> Result<bool> {
        const std::lock_guard lock(sockets_->mutex);
        const auto outer = kernel::find_link(sockets_->route, slot.interface);
        if (!outer) return Failure(outer.error());
        return outer->running;
      },
      std::chrono::seconds(5));
}

Result<Slot> SlotFactory::find(unsigned index, NetworkMode mode, pid_t pid, SlotHolder holder) {
  const std::string what = fmt::format("adopt network slot {} of process {}", index, pid);
  if (index >= config_.capacity()) return fail(Code::InvalidRequest, what + ": no such slot");
  if (holder == SlotHolder::Runtime && mode != NetworkMode::Bridge) {
    return fail(Code::InvalidRequest, what + ": nothing tells a runtime's process without a network");
  }
  if (holder == SlotHolder::InHostNetwork && mode != NetworkMode::None) {
    return fail(Code::InvalidRequest, what + ": the host's network is no bridge");
  }
  Slot slot{.index = index, .mode = mode, .id_base = config_.id_base(index)};
  const std::string proc = fmt::format("/proc/{}/", pid);
  UniqueFd userns;
  if (holder != SlotHolder::Runtime) {
    auto own = sys::open_at(AT_FDCWD, proc + "ns/user", O_RDONLY);
    if (!own) return with_context(what, own.error());
    userns = std::move(*own);
    const auto map = sys::read_text(proc + "uid_map");
    if (!map) return with_context(what, map.error());
    if (!is_map(*map, slot.id_base)) return fail(Code::Conflict, what + ": it has another id range");
  }
  if (holder == SlotHolder::InHostNetwork) {
    slot.userns = std::move(userns);
    return slot;
  }
  auto netns = sys::open_at(AT_FDCWD, proc + "ns/net", O_RDONLY);
  if (!netns) return with_context(what, netns.error());
  UniqueFd owner(::ioctl(netns->get(), NS_GET_USERNS));
  if (!owner) return sys::from_errno(what + ": owner of the network namespace", errno);
  if (holder == SlotHolder::Sandbox) {
    const auto owned = same_namespace(owner.get(), userns.get());
    if (!owned) return with_context(what, owned.error());
    if (!*owned) return fail(Code::Conflict, what + ": its network namespace is not its own");
  }
  slot.userns = std::move(owner);
  slot.netns = std::move(*netns);
  if (mode == NetworkMode::None) return slot;

  slot.address = format_ipv4(config_.address(index));
  slot.interface = config_.interface(index);
  slot.shaped = true;  // an earlier daemon may have done it
  const std::lock_guard lock(sockets_->mutex);
  const auto link = kernel::find_link(sockets_->route, slot.interface);
  if (!link) return with_context(what, link.error());
  const auto id = kernel::namespace_id(sockets_->route, slot.netns.get());
  if (!id) return with_context(what, id.error());
  if (!*id || link->peer_netns_id != *id)
    return fail(Code::Conflict, fmt::format("{}: {} does not lead to it", what, slot.interface));
  return slot;
}

Result<void> SlotFactory::shape(const Slot& slot, const Bandwidth& limit) {
  const std::string what = "limit the bandwidth of " + slot.interface;
  {
    const std::lock_guard lock(sockets_->mutex);
    if (const auto done = set_rate(sockets_->route, slot.interface, limit.receive); !done)
      return with_context(what, done.error());
  }
  auto inside = kernel::NetlinkSocket::open_in(slot.netns.get(), NETLINK_ROUTE);
  if (!inside) return with_context(what, inside.error());
  if (const auto done = set_rate(*inside, kInside, limit.send); !done) return with_context(what, done.error());
  return {};
}

Result<bool> SlotFactory::end_sockets(const Slot& slot) {
  auto left = kernel::count_sockets(slot.netns.get());
  if (!left) return Failure(left.error());
  if (left->none()) return true;
  if (const auto done = kernel::end_tcp_sockets(slot.netns.get()); !done) return Failure(done.error());
  left = kernel::count_sockets(slot.netns.get());
  if (!left) return Failure(left.error());
  return left->none();
}

Result<std::uint64_t> SlotFactory::packets(const Slot& slot) {
  const std::lock_guard lock(sockets_->mutex);
  const auto link = kernel::find_link(sockets_->route, slot.interface);
  if (!link) return Failure(link.error());
  return link->packets;
}

Result<void> SlotFactory::forget_connections(const std::vector<unsigned>& indices) {
  if (indices.empty()) return {};
  std::set<std::uint32_t> addresses;
  for (const unsigned index : indices) addresses.insert(config_.address(index));
  const std::lock_guard lock(sockets_->netfilter_mutex);
  const auto done = kernel::forget_connections(sockets_->netfilter,
                                               [&](std::uint32_t address) { return addresses.contains(address); });
  if (!done) return Failure(done.error());
  return {};
}

Result<void> SlotFactory::forget_other_connections(const std::set<unsigned>& indices) {
  const std::lock_guard lock(sockets_->netfilter_mutex);
  const auto done = kernel::forget_connections(sockets_->netfilter, [&](std::uint32_t address) {
    return config_.subnet.contains(address) && address >= config_.address(0) &&
           !indices.contains(address - config_.address(0));
  });
  if (!done) return Failure(done.error());
  return {};
}

Result<std::vector<unsigned>> SlotFactory::existing() {
  const std::lock_guard lock(sockets_->mutex);
  const auto links = kernel::list_links(sockets_->route, config_.interface_prefix);
  if (!links) return Failure(links.error());
  std::vector<unsigned> indices;
  for (const kernel::Link& link : *links) {
    const std::string_view number = std::string_view(link.name).substr(config_.interface_prefix.size());
    unsigned index = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
    if (error == std::errc() && end == number.data() + number.size()) indices.push_back(index);
  }
  return indices;
}

Result<void> SlotFactory::wait_for_end(const std::vector<unsigned>& indices, std::chrono::milliseconds timeout) {
  auto monitor = kernel::LinkMonitor::open();
  if (!monitor) return Failure(monitor.error());
  return monitor->wait(
      [&]() -> Result<bool> {
        const auto there = existing();
        if (!there) return Failure(there.error());
        return std::ranges::any_of(indices,
                                   [&](unsigned index) { return std::ranges::find(*there, index) == there->end(); });
      },
      timeout);
}

}  // namespace osb::sandboxd
