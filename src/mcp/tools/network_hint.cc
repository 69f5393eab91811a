#include "mcp/tools/network_hint.h"

namespace osb::mcp::tools {
namespace {

constexpr std::size_t kMost = 5;
// The clocks of this machine and the sandbox's may differ by this much.
constexpr std::chrono::seconds kClocks(5);

}  // namespace

std::string denied_names_hint(const std::vector<opensandbox::EgressDecision>& decisions, Timestamp since) {
  std::string names;
  std::size_t count = 0;
  for (auto each = decisions.rbegin(); each != decisions.rend() && count < kMost; ++each) {
    const auto seen = parse_timestamp(each->last_seen);
    if (each->verdict != "deny" || each->audited || !seen || *seen < since) continue;
    names += (names.empty() ? "" : ", ") + each->name;
    ++count;
  }
  if (names.empty()) return "";
  return "The sandbox's network policy denied: " + names +
         ". egress_patch_rules (offered with --all-tools) can allow them, if the user wants that.";
}

net::awaitable<void> add_network_hint(json::object& out, sdk::Sandbox sandbox, Timestamp began) {
  const auto available = co_await sandbox.egress().available();
  if (!available || !*available) co_return;
  const auto decisions = co_await sandbox.egress().decisions();
  if (!decisions) co_return;
  if (const std::string hint = denied_names_hint(*decisions, began - kClocks); !hint.empty()) {
    out["network_hint"] = hint;
  }
}

}  // namespace osb::mcp::tools
