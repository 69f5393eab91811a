#pragma once

#include <optional>

#include "async/net.h"
#include "base/error.h"
#include "base/unique_fd.h"
#include "egress/api/vault_api.h"
#include "egress/metrics/process_usage.h"

namespace osb::egress {

struct HostOptions {
  UniqueFd link;                    // one end of a Unix socket pair; sandboxd has the other
  UniqueFd udp;                     // bound
  UniqueFd tcp;                     // listening
  UniqueFd intercept = UniqueFd();  // listening: intercepted connections
  ProcessUsage usage = {};
  // Of the credential vault. Its gates and its store are the service's own where they are not set.
  VaultOptions vault = {};
};

// Serves all sandboxes of a host until the link ends (success) or `stop` returns.
net::awaitable<Result<void>> serve_host(HostOptions options, net::awaitable<void> stop);

}  // namespace osb::egress
