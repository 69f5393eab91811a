#include "sandboxd/network/host_network.h"

#include <algorithm>
#include <linux/rtnetlink.h>

#include <fmt/format.h>

#include "base/log.h"
#include "kernel/netlink_route.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

constexpr const char* kForwarding = "/proc/sys/net/ipv4/ip_forward";

kernel::Route dead_end(const NetworkConfig& config, unsigned lo) {
  return {.destination = config.subnet.base,
          .prefix_length = config.subnet.prefix_length,
          .index = lo,
          .source = config.gateway(),
          .scope = RT_SCOPE_LINK};
}

bool overlap(const Subnet& a, const Subnet& b) { return a.contains(b.base) || b.contains(a.base); }

Result<void> check_subnet_is_free(const NetworkConfig& config, kernel::NetlinkSocket& socket) {
  const auto routes = kernel::list_routes(socket);
  if (!routes) return Failure(routes.error());
  const auto links = kernel::list_links(socket, "");
  if (!links) return Failure(links.error());
  for (const kernel::Route& route : *routes) {
    // Default routes (VPNs split theirs in two halves) give way to ours; refusals and broadcasts lead nowhere.
    if (route.prefix_length <= 1 || (route.type != RTN_UNICAST && route.type != RTN_LOCAL)) continue;
    const Subnet there{.base = route.destination, .prefix_length = route.prefix_length};
    if (!overlap(config.subnet, there)) continue;
    if (route.type == RTN_LOCAL && route.prefix_length == 32 && route.destination == config.gateway()) continue;
    const auto link = std::ranges::find(*links, route.index, &kernel::Link::index);
    // Links are listed after routes: an interface that has gone since has taken its routes along. Interfaces of an
    // earlier daemon go while we start. (0: several next hops.)
    if (link == links->end() && route.index != 0) continue;
    const std::string name = link == links->end() ? "several interfaces" : link->name;
    if (name.starts_with(config.interface_prefix)) continue;
    if (name == "lo" && there.base == config.subnet.base && there.prefix_length == config.subnet.prefix_length)
      continue;
    return fail(Code::Conflict,
                fmt::format("network.subnet: this host already uses {} ({} of sandboxes would be hidden or hide it): "
                            "set a range that is free here",
                            fmt::format("{} on {}", format_subnet(there), name), format_subnet(config.subnet)));
  }
  return {};
}

Result<void> enable_forwarding() {
  const auto before = sys::read_text(kForwarding);
  if (!before) return Failure(before.error());
  if (before->starts_with("1")) return {};
  if (const auto done = sys::write_text(kForwarding, "1"); !done)
    return with_context("switch IPv4 forwarding on (sandboxes need it to reach the network)", done.error());
  log_info("IPv4 forwarding switched on",
           {{"file", kForwarding}, {"reason", "sandboxes reach the network through it"}});
  return {};
}

}  // namespace

Result<void> prepare_host(const NetworkConfig& config, kernel::NetlinkSocket& route) {
  if (const auto free = check_subnet_is_free(config, route); !free) return free;
  const auto lo = kernel::find_link(route, "lo");
  if (!lo) return Failure(lo.error());
  kernel::NetlinkBatch batch;
  kernel::change_link(batch, lo->index, {.up = true});
  kernel::add_address(batch, lo->index, config.gateway(), 32, RT_SCOPE_HOST);
  kernel::add_route(batch, dead_end(config, lo->index));
  if (const auto done = route.run(batch); !done) return done;
  return enable_forwarding();
}

Result<void> restore_host(const NetworkConfig& config, kernel::NetlinkSocket& route) {
  const auto lo = kernel::find_link(route, "lo");
  if (!lo) return Failure(lo.error());
  kernel::NetlinkBatch batch;
  kernel::delete_route(batch, dead_end(config, lo->index));
  kernel::delete_address(batch, lo->index, config.gateway(), 32);
  return route.run(batch);
}

Result<unsigned> uplink_mtu(kernel::NetlinkSocket& route) {
  const auto routes = kernel::list_routes(route);
  if (!routes) return Failure(routes.error());
  const auto links = kernel::list_links(route, "");
  if (!links) return Failure(links.error());
  unsigned mtu = 0;
  for (const kernel::Route& candidate : *routes) {
    if (candidate.prefix_length > 1 || candidate.type != RTN_UNICAST) continue;
    const auto link = std::ranges::find(*links, candidate.index, &kernel::Link::index);
    if (link != links->end() && link->mtu >= 576) mtu = mtu == 0 ? link->mtu : std::min(mtu, link->mtu);
  }
  return mtu == 0 ? 1500 : std::min(mtu, 65535U);
}

}  // namespace osb::sandboxd
