#include "mcp/tools/network_hint.h"

#include <gtest/gtest.h>

namespace osb::mcp::tools {
namespace {

opensandbox::EgressDecision decision(std::string name, std::string verdict, std::string seen) {
  opensandbox::EgressDecision out;
  out.name = std::move(name);
  out.verdict = std::move(verdict);
  out.last_seen = std::move(seen);
  return out;
}

TEST(NetworkHint, NamesThatWereDeniedMeanwhileAreTold) {
  const Timestamp since = *parse_timestamp("2026-11-18T01:00:00Z");
  std::vector<opensandbox::EgressDecision> all = {decision("old.com", "deny", "2026-11-18T00:59:59Z"),
                                                  decision("open.com", "allow", "2026-11-18T01:00:01Z")};
  EXPECT_EQ(denied_names_hint(all, since), "");
  all.push_back(decision("a.com", "deny", "2026-11-18T01:00:02Z"));
  all.push_back(decision("b.com", "deny", "2026-11-18T01:00:03Z"));
  all.push_back(decision("tried.com", "deny", "2026-11-18T01:00:04Z"));
  all.back().audited = true;
  EXPECT_EQ(
      denied_names_hint(all, since),
      "The sandbox's network policy denied: b.com, a.com. egress_patch_rules (offered with --all-tools) can allow "
      "them, if the user wants that.");
}

}  // namespace
}  // namespace osb::mcp::tools
