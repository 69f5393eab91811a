#pragma once

#include <string>
#include <vector>

namespace osb::egress {

// Runs this program again with `arguments` as a child, and again whenever that child ends: the first process of the
// sidecar's container. The container's network lasts as long as this process, and the kernel keeps the rules in it, so
// a worker that crashes leaves the sandbox closed for a moment and never open. SIGTERM and SIGINT end both.
//
// A worker that ends by itself with an error before it has run for a few seconds is not started again: its settings are
// wrong, and its exit code is returned.
int supervise(const std::vector<std::string>& arguments);

}  // namespace osb::egress
