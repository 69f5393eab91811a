#include "sandboxd/network/dns.h"

#include <gtest/gtest.h>

namespace osb::sandboxd {
namespace {

TEST(SandboxResolvConf, ChoosesServersThatASandboxCanReach) {
  struct {
    const char* why;
    const char* host;
    const char* upstream;
    std::vector<std::string> configured;
    const char* want;
  } rows[] = {
      {"the host's own, with search and options",
       "# made by dhcp\nsearch  corp.example\nnameserver 192.0.2.53\noptions ndots:2 rotate\n",
       "nameserver 198.51.100.53\n",
       {"203.0.113.53"},
       "nameserver 192.0.2.53\nsearch corp.example\noptions ndots:2 rotate\n"},
      {"loopback ones are left out, others stay",
       "nameserver 127.0.0.1\nnameserver\t192.0.2.53 \r\n",
       "",
       {},
       "nameserver 192.0.2.53\n"},
      {"systemd-resolved's upstreams",
       "nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch .\n",
       "nameserver 198.51.100.53\nsearch corp.example\n",
       {"203.0.113.53"},
       "nameserver 198.51.100.53\nsearch corp.example\n"},
      {"configured ones keep the host's search",
       "nameserver 127.0.0.53\nsearch corp.example\n",
       "nameserver ::1\n",
       {"203.0.113.53", "203.0.113.54"},
       "nameserver 203.0.113.53\nnameserver 203.0.113.54\nsearch corp.example\n"},
      {"no IPv6 servers",
       "nameserver 2001:db8::53\nnameserver fe80::1%eth0\nnameserver 192.0.2.53\n",
       "",
       {},
       "nameserver 192.0.2.53\n"},
      {"broken lines do no harm",
       "nameserver\nnameserver 1.2.3\nnameserver 0.0.0.0\n nameserver 192.0.2.53",
       "",
       {},
       "nameserver 192.0.2.53\n"},
      {"none at all", "", "", {}, "# The host has no name server that a sandbox can reach: set network.dns.\n"},
  };
  for (const auto& row : rows)
    EXPECT_EQ(sandbox_dns(row.host, row.upstream, row.configured).resolv_conf, row.want) << row.why;
}

}  // namespace
}  // namespace osb::sandboxd
