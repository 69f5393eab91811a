#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace osb::sandboxd {

struct SandboxDns {
  std::string resolv_conf;             // the text of /etc/resolv.conf
  std::vector<std::uint32_t> servers;  // addresses in it
};

// The name servers of a sandbox. `host` is the host's own resolv.conf. Its name servers are used as they are unless
// they are on loopback (unreachable from inside): then those of `upstream` (systemd-resolved's
// /run/systemd/resolve/resolv.conf, empty if there is none), else `configured`. IPv6 servers are left out: sandboxes
// have no IPv6. `search` and `options` lines of the chosen file are kept. Without any server the file has none, and a
// comment says so.
SandboxDns sandbox_dns(std::string_view host, std::string_view upstream, const std::vector<std::string>& configured);

// The same with this host's files.
SandboxDns sandbox_dns(const std::vector<std::string>& configured);

}  // namespace osb::sandboxd
