#include <linux/netfilter.h>

#include <fmt/format.h>

#include "kernel/netlink.h"
#include "kernel/nftables.h"
#include "sandboxd/network/firewall.h"
#include "sys/text_file.h"

namespace osb::sandboxd {

Result<std::vector<ForeignFirewall>> foreign_forward_drops(const NetworkConfig& config) {
  auto netfilter = kernel::NetlinkSocket::open(NETLINK_NETFILTER);
  if (!netfilter) return Failure(netfilter.error());
  const auto chains = kernel::list_chains(*netfilter);
  if (!chains) return Failure(chains.error());
  const std::string rules = fmt::format(
      "iptables -I FORWARD -i {0}+ -j ACCEPT; iptables -I FORWARD -o {0}+ -m conntrack --ctstate "
      "RELATED,ESTABLISHED,DNAT "
      "-j ACCEPT (with Docker in chain DOCKER-USER instead of FORWARD)",
      config.interface_prefix);
  std::vector<ForeignFirewall> found;
  for (const kernel::NftChainInfo& chain : *chains) {
    const bool sees_ipv4 = chain.family == NFPROTO_IPV4 || chain.family == NFPROTO_INET;
    if (!sees_ipv4 || chain.hook != NF_INET_FORWARD || !chain.drops_by_default || chain.table == config.table) continue;
    found.push_back(
        {fmt::format("chain {} of table {} drops forwarded packets by default: sandboxes may have no network",
                     chain.name, chain.table),
         rules});
  }
  // The older iptables has no interface that tells its policy to us; that it is in use is all that can be seen.
  if (const auto names = sys::read_text("/proc/net/ip_tables_names");
      names && names->find("filter") != std::string::npos)
    found.push_back(
        {"iptables-legacy has a filter table: if its FORWARD policy is DROP, sandboxes have no network", rules});
  return found;
}

}  // namespace osb::sandboxd
