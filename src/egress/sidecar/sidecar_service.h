#pragma once

#include <string>

#include "async/net.h"
#include "base/error.h"
#include "egress/sidecar/settings.h"

namespace osb::egress {

struct SidecarPaths {
  std::string rules = "/var/egress/rules";
  std::string resolv_conf = "/etc/resolv.conf";
};

// Serves the sandbox of this network namespace until `stop` returns, then closes everything and leaves it closed.
net::awaitable<Result<void>> serve_sidecar(Settings settings, SidecarPaths paths, net::awaitable<void> stop);

}  // namespace osb::egress
