#include "kernel/netlink_route.h"

#include <arpa/inet.h>
#include <cstring>
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/net_namespace.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <poll.h>
#include <sys/socket.h>

#include <fmt/format.h>

#include "base/deadline.h"

namespace osb::kernel {
namespace {

constexpr std::uint8_t kAddressGenerationNone = 1;  // IN6_ADDR_GEN_MODE_NONE

template <typename T>
T* extra_header(nlmsghdr* message) {
  return static_cast<T*>(mnl_nlmsg_put_extra_header(message, sizeof(T)));
}

template <typename T>
const T* payload(const nlmsghdr* message) {
  return static_cast<const T*>(mnl_nlmsg_get_payload(message));
}

std::string dotted(std::uint32_t address) {
  return fmt::format("{}.{}.{}.{}", address >> 24, address >> 16 & 255, address >> 8 & 255, address & 255);
}

void put_ipv4(nlmsghdr* message, std::uint16_t type, std::uint32_t address) {
  mnl_attr_put_u32(message, type, htonl(address));
}

// One end of a veth pair, in the outer message or in the peer's nest.
void put_veth_end(nlmsghdr* message, const std::string& name, const MacAddress& mac, unsigned mtu) {
  mnl_attr_put_strz(message, IFLA_IFNAME, name.c_str());
  mnl_attr_put(message, IFLA_ADDRESS, mac.size(), mac.data());
  mnl_attr_put_u32(message, IFLA_MTU, mtu);
  // The default is one queue per processor, each with memory of its own.
  mnl_attr_put_u32(message, IFLA_NUM_TX_QUEUES, 1);
  mnl_attr_put_u32(message, IFLA_NUM_RX_QUEUES, 1);
}

Link parse_link(const nlmsghdr* message) {
  Link link;
  const auto* info = payload<ifinfomsg>(message);
  link.index = static_cast<unsigned>(info->ifi_index);
  for_each_attribute(message, sizeof(ifinfomsg), [&](const nlattr* attr) {
    switch (mnl_attr_get_type(attr)) {
      case IFLA_IFNAME:
        link.name = mnl_attr_get_str(attr);
        break;
      case IFLA_MTU:
        link.mtu = mnl_attr_get_u32(attr);
        break;
      case IFLA_OPERSTATE:
        link.running = mnl_attr_get_u8(attr) == IF_OPER_UP;
        break;
      case IFLA_LINK_NETNSID:
        link.peer_netns_id = static_cast<int>(mnl_attr_get_u32(attr));
        break;
      case IFLA_STATS64: {
        rtnl_link_stats64 stats{};
        std::memcpy(&stats, mnl_attr_get_payload(attr),
                    std::min<std::size_t>(sizeof stats, mnl_attr_get_payload_len(attr)));
        link.packets = stats.rx_packets + stats.tx_packets;
        break;
      }
      default:
        break;
    }
  });
  return link;
}

void put_route(nlmsghdr* message, const Route& route) {
  auto* header = extra_header<rtmsg>(message);
  header->rtm_family = AF_INET;
  header->rtm_dst_len = static_cast<std::uint8_t>(route.prefix_length);
  header->rtm_table = route.table;
  header->rtm_protocol = RTPROT_STATIC;
  header->rtm_scope = route.scope;
  header->rtm_type = route.type;
  if (route.onlink) header->rtm_flags |= RTNH_F_ONLINK;
  if (route.prefix_length > 0) put_ipv4(message, RTA_DST, route.destination);
  if (route.index != 0) mnl_attr_put_u32(message, RTA_OIF, route.index);
  if (route.gateway != 0) put_ipv4(message, RTA_GATEWAY, route.gateway);
  if (route.source != 0) put_ipv4(message, RTA_PREFSRC, route.source);
}

std::string name_of(const Route& route) {
  return fmt::format("route {}/{}", dotted(route.destination), route.prefix_length);
}

// Dumps are repeated when the kernel says that the list changed meanwhile (EAGAIN from run()).
Result<void> dump(NetlinkSocket& socket, const std::function<void(NetlinkBatch&)>& ask,
                  const std::function<void()>& restart, const std::function<void(const nlmsghdr*)>& each) {
  for (int attempt = 0;; ++attempt) {
    NetlinkBatch batch;
    ask(batch);
    restart();
    const auto done = socket.run(batch, each);
    if (done || done.error().sys_errno != EAGAIN || attempt == 20) return done;
  }
}

}  // namespace

void add_veth(NetlinkBatch& batch, const VethPair& pair) {
  nlmsghdr* message = batch.begin(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, "create veth " + pair.name);
  extra_header<ifinfomsg>(message)->ifi_family = AF_UNSPEC;
  put_veth_end(message, pair.name, pair.mac, pair.mtu);
  nlattr* info = mnl_attr_nest_start(message, IFLA_LINKINFO);
  mnl_attr_put_strz(message, IFLA_INFO_KIND, "veth");
  nlattr* data = mnl_attr_nest_start(message, IFLA_INFO_DATA);
  nlattr* peer = mnl_attr_nest_start(message, VETH_INFO_PEER);
  mnl_nlmsg_put_extra_header(message, sizeof(ifinfomsg));
  put_veth_end(message, pair.peer_name, pair.peer_mac, pair.mtu);
  mnl_attr_put_u32(message, IFLA_NET_NS_FD, static_cast<std::uint32_t>(pair.peer_netns));
  mnl_attr_nest_end(message, peer);
  mnl_attr_nest_end(message, data);
  mnl_attr_nest_end(message, info);
}

void change_link(NetlinkBatch& batch, unsigned index, const LinkChange& change) {
  nlmsghdr* message = batch.begin(RTM_SETLINK, NLM_F_ACK, fmt::format("change interface {}", index));
  auto* header = extra_header<ifinfomsg>(message);
  header->ifi_family = AF_UNSPEC;
  header->ifi_index = static_cast<int>(index);
  if (change.up) {
    header->ifi_change |= IFF_UP;
    if (*change.up) header->ifi_flags |= IFF_UP;
  }
  if (change.arp) {
    header->ifi_change |= IFF_NOARP;
    if (!*change.arp) header->ifi_flags |= IFF_NOARP;
  }
  if (!change.rp_filter && !change.route_localnet && !change.no_ipv6_address) return;
  nlattr* families = mnl_attr_nest_start(message, IFLA_AF_SPEC);
  if (change.rp_filter || change.route_localnet) {
    nlattr* inet = mnl_attr_nest_start(message, AF_INET);
    nlattr* conf = mnl_attr_nest_start(message, IFLA_INET_CONF);
    if (change.rp_filter)
      mnl_attr_put_u32(message, IPV4_DEVCONF_RP_FILTER, static_cast<std::uint32_t>(*change.rp_filter));
    if (change.route_localnet) mnl_attr_put_u32(message, IPV4_DEVCONF_ROUTE_LOCALNET, *change.route_localnet ? 1 : 0);
    mnl_attr_nest_end(message, conf);
    mnl_attr_nest_end(message, inet);
  }
  if (change.no_ipv6_address) {
    nlattr* inet6 = mnl_attr_nest_start(message, AF_INET6);
    mnl_attr_put_u8(message, IFLA_INET6_ADDR_GEN_MODE, kAddressGenerationNone);
    mnl_attr_nest_end(message, inet6);
  }
  mnl_attr_nest_end(message, families);
}

void delete_link(NetlinkBatch& batch, unsigned index) {
  nlmsghdr* message = batch.begin(RTM_DELLINK, NLM_F_ACK, fmt::format("delete interface {}", index));
  extra_header<ifinfomsg>(message)->ifi_index = static_cast<int>(index);
}

void add_address(NetlinkBatch& batch, unsigned index, std::uint32_t address, unsigned prefix_length,
                 std::uint8_t scope) {
  nlmsghdr* message =
      batch.begin(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, "set address " + dotted(address));
  auto* header = extra_header<ifaddrmsg>(message);
  header->ifa_family = AF_INET;
  header->ifa_prefixlen = static_cast<std::uint8_t>(prefix_length);
  header->ifa_scope = scope;
  header->ifa_index = index;
  put_ipv4(message, IFA_LOCAL, address);
  put_ipv4(message, IFA_ADDRESS, address);
}

void delete_address(NetlinkBatch& batch, unsigned index, std::uint32_t address, unsigned prefix_length) {
  nlmsghdr* message = batch.begin(RTM_DELADDR, NLM_F_ACK, "delete address " + dotted(address));
  auto* header = extra_header<ifaddrmsg>(message);
  header->ifa_family = AF_INET;
  header->ifa_prefixlen = static_cast<std::uint8_t>(prefix_length);
  header->ifa_index = index;
  put_ipv4(message, IFA_LOCAL, address);
}

void add_route(NetlinkBatch& batch, const Route& route) {
  put_route(batch.begin(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, "add " + name_of(route)), route);
}

void delete_route(NetlinkBatch& batch, const Route& route) {
  put_route(batch.begin(RTM_DELROUTE, NLM_F_ACK, "delete " + name_of(route)), route);
}

void add_permanent_neighbour(NetlinkBatch& batch, unsigned index, std::uint32_t address, const MacAddress& mac) {
  nlmsghdr* message =
      batch.begin(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, "add neighbour " + dotted(address));
  auto* header = extra_header<ndmsg>(message);
  header->ndm_family = AF_INET;
  header->ndm_ifindex = static_cast<int>(index);
  header->ndm_state = NUD_PERMANENT;
  put_ipv4(message, NDA_DST, address);
  mnl_attr_put(message, NDA_LLADDR, mac.size(), mac.data());
}

Result<Link> find_link(NetlinkSocket& socket, const std::string& name) {
  NetlinkBatch batch;
  nlmsghdr* message = batch.begin(RTM_GETLINK, NLM_F_ACK, "interface " + name);
  extra_header<ifinfomsg>(message)->ifi_family = AF_UNSPEC;
  mnl_attr_put_strz(message, IFLA_IFNAME, name.c_str());
  Link link;
  const auto done = socket.run(batch, [&](const nlmsghdr* answer) { link = parse_link(answer); });
  if (done) return link;
  Error error = done.error();
  if (error.sys_errno == ENODEV) error.code = Code::NotFound;
  return Failure(std::move(error));
}

Result<std::vector<Link>> list_links(NetlinkSocket& socket, std::string_view name_prefix) {
  std::vector<Link> links;
  const auto done = dump(
      socket,
      [](NetlinkBatch& batch) {
        extra_header<ifinfomsg>(batch.begin(RTM_GETLINK, NLM_F_DUMP, "list interfaces"))->ifi_family = AF_UNSPEC;
      },
      [&] { links.clear(); },
      [&](const nlmsghdr* answer) {
        Link link = parse_link(answer);
        if (link.name.starts_with(name_prefix)) links.push_back(std::move(link));
      });
  if (!done) return Failure(done.error());
  return links;
}

Result<std::vector<Route>> list_routes(NetlinkSocket& socket) {
  std::vector<Route> routes;
  const auto parse = [&](const nlmsghdr* answer) {
    const auto* header = payload<rtmsg>(answer);
    if (header->rtm_family != AF_INET) return;
    Route route{.prefix_length = header->rtm_dst_len, .type = header->rtm_type, .scope = header->rtm_scope};
    route.table = header->rtm_table;
    for_each_attribute(answer, sizeof(rtmsg), [&](const nlattr* attr) {
      switch (mnl_attr_get_type(attr)) {
        case RTA_DST:
          route.destination = ntohl(mnl_attr_get_u32(attr));
          break;
        case RTA_OIF:
          route.index = mnl_attr_get_u32(attr);
          break;
        case RTA_GATEWAY:
          route.gateway = ntohl(mnl_attr_get_u32(attr));
          break;
        case RTA_PREFSRC:
          route.source = ntohl(mnl_attr_get_u32(attr));
          break;
        default:
          break;
      }
    });
    routes.push_back(route);
  };
  const auto done = dump(
      socket,
      [](NetlinkBatch& batch) {
        extra_header<rtmsg>(batch.begin(RTM_GETROUTE, NLM_F_DUMP, "list routes"))->rtm_family = AF_INET;
      },
      [&] { routes.clear(); }, parse);
  if (!done) return Failure(done.error());
  return routes;
}

Result<std::optional<int>> namespace_id(NetlinkSocket& socket, int netns_fd) {
  NetlinkBatch batch;
  nlmsghdr* message = batch.begin(RTM_GETNSID, NLM_F_ACK, "id of a network namespace");
  extra_header<rtgenmsg>(message)->rtgen_family = AF_UNSPEC;
  mnl_attr_put_u32(message, NETNSA_FD, static_cast<std::uint32_t>(netns_fd));
  std::optional<int> id;
  const auto done = socket.run(batch, [&](const nlmsghdr* answer) {
    for_each_attribute(answer, sizeof(rtgenmsg), [&](const nlattr* attr) {
      const auto value = static_cast<int>(mnl_attr_get_u32(attr));
      if (mnl_attr_get_type(attr) == NETNSA_NSID && value >= 0) id = value;
    });
  });
  if (!done) return Failure(done.error());
  return id;
}

Result<LinkMonitor> LinkMonitor::open() {
  auto socket = NetlinkSocket::open(NETLINK_ROUTE);
  if (!socket) return Failure(socket.error());
  const unsigned group = RTNLGRP_LINK;
  if (::setsockopt(socket->fd(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) < 0)
    return sys::from_errno("subscribe to news about interfaces", errno);
  return LinkMonitor(std::move(*socket));
}

Result<void> LinkMonitor::wait(const std::function<Result<bool>()>& done, std::chrono::milliseconds timeout) {
  const Deadline deadline(timeout);
  for (;;) {
    const auto ready = done();
    if (!ready) return Failure(ready.error());
    if (*ready) return {};
    if (deadline.passed()) return fail(Code::Timeout, "news about interfaces did not come in time");
    pollfd wanted{.fd = socket_.fd(), .events = POLLIN, .revents = 0};
    if (::poll(&wanted, 1, static_cast<int>(deadline.left().count())) < 0 && errno != EINTR)
      return sys::from_errno("wait for news about interfaces", errno);
    // The contents do not matter, because done() checks the state itself; lost messages (ENOBUFS) are a reason to
    // check, too.
    char drop[8192];
    while (::recv(socket_.fd(), drop, sizeof drop, MSG_DONTWAIT) >= 0 || errno == ENOBUFS) {
    }
  }
}

}  // namespace osb::kernel
