#pragma once

#include <string>
#include <vector>

#include "base/time.h"
#include "mcp/tools/tools.h"

namespace osb::mcp::tools {

// Names that were denied since then, the last one first, at most a handful; "" when there are none.
std::string denied_names_hint(const std::vector<opensandbox::EgressDecision>& decisions, Timestamp since);

// For the result of a failed command of a sandbox with a network policy: field `network_hint`, if a name was denied
// while it ran. Costs one question for such sandboxes and none for others.
net::awaitable<void> add_network_hint(json::object& out, sdk::Sandbox sandbox, Timestamp began);

}  // namespace osb::mcp::tools
