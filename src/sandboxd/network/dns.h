#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace osb::sandboxd {

// The text of a sandbox's /etc/resolv.conf. `host` is the host's own one. Its name servers are used as they are unless
// they are on loopback (unreachable from inside): then those of `upstream` (systemd-resolved's
// /run/systemd/resolve/resolv.conf, empty if there is none), else `configured`. IPv6 servers are left out: sandboxes
// have no IPv6. `search` and `options` lines of the chosen file are kept. Without any server the file has none, and a
// comment says so.
std::string sandbox_resolv_conf(std::string_view host, std::string_view upstream,
                                const std::vector<std::string>& configured);

// The same with this host's files.
std::string sandbox_resolv_conf(const std::vector<std::string>& configured);

}  // namespace osb::sandboxd
