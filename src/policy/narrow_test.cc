#include "policy/narrow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/matcher.h"

namespace osb::policy {
namespace {

using ::testing::StartsWith;

// "deny a.com, allow *.b.com" with the default in front: "deny: ...".
Policy made(std::string_view text) {
  Policy out;
  out.default_action = text.starts_with("allow:") ? Action::Allow : Action::Deny;
  text.remove_prefix(text.find(':') + 1);
  while (!text.empty()) {
    const std::string_view item = text.substr(1, text.find(',') - 1);
    text.remove_prefix(std::min(text.size(), item.size() + 2));
    const std::string_view target = item.substr(item.find(' ') + 1);
    const auto at = target.find('@');
    auto rule = make_rule(item.starts_with("allow") ? Action::Allow : Action::Deny, target.substr(0, at));
    EXPECT_TRUE(rule) << item;
    if (at != std::string_view::npos)
      rule->ports = {static_cast<std::uint16_t>(std::stoi(std::string(target.substr(at + 1))))};
    out.egress.push_back(*rule);
  }
  return out;
}

std::string shown(const Result<Policy>& policy) {
  if (!policy) return policy.error().message;
  std::string out = std::string(to_string(policy->default_action)) + ":";
  for (const Rule& rule : policy->egress) {
    if (!out.ends_with(':')) out += ",";
    out += " " + std::string(to_string(rule.action)) + " " + rule.text;
    for (const auto port : rule.ports) out += "@" + std::to_string(port);
  }
  return out;
}

TEST(NarrowPolicy, TakesRulesThatTheOuterPolicyAllows) {
  const struct {
    const char* why;
    const char* outer;
    const char* user;
    const char* want;
  } rows[] = {
      {"nothing", "deny: allow a.com", "deny:", "deny:"},
      {"the same name", "deny: allow a.com", "deny: allow a.com", "deny: allow a.com"},
      {"below a wildcard", "deny: allow *.a.com", "deny: allow x.y.a.com", "deny: allow x.y.a.com"},
      {"a narrower wildcard", "deny: allow *.a.com", "deny: allow *.x.a.com", "deny: allow *.x.a.com"},
      {"rules inside a wildcard come along", "deny: deny evil.a.com, allow *.a.com",
       "deny: deny z.a.com, allow *.a.com", "deny: deny z.a.com, deny evil.a.com, allow *.a.com"},
      {"with their exceptions", "deny: allow ok.evil.a.com, deny *.evil.a.com, allow *.a.com", "deny: allow *.a.com",
       "deny: allow ok.evil.a.com, deny *.evil.a.com, allow *.a.com"},
      {"rules behind the covering one do not count", "deny: allow *.a.com, deny evil.a.com", "deny: allow *.a.com",
       "deny: allow *.a.com"},
      {"denied addresses stay denied", "deny: deny 9.9.9.0/24, allow a.com", "deny: allow a.com",
       "deny: deny 9.9.9.0/24, allow a.com"},
      {"part of a network", "deny: allow 10.0.0.0/8", "deny: allow 10.1.0.0/16", "deny: allow 10.1.0.0/16"},
      {"one port of it", "deny: allow 10.0.0.0/8", "deny: allow 10.1.0.0/16@443", "deny: allow 10.1.0.0/16@443"},
      {"default allow in both", "allow: deny a.com, allow 10.0.0.1", "allow: deny b.com",
       "allow: deny b.com, deny a.com, allow 10.0.0.1"},
      {"deny all below allow all", "allow: deny a.com", "deny: allow b.com, allow 8.8.8.8",
       "deny: allow b.com, allow 8.8.8.8"},
  };
  for (const auto& row : rows) EXPECT_EQ(shown(narrow(made(row.outer), made(row.user))), row.want) << row.why;
}

TEST(NarrowPolicy, RefusesRulesThatAllowMore) {
  const struct {
    const char* outer;
    const char* user;
    const char* want;
  } rows[] = {
      {"deny: allow a.com", "allow:", "/defaultAction: allow is more than the policy template allows"},
      {"deny: allow a.com", "deny: allow a.com, allow b.com", "/egress/1/target: \"b.com\" is more than"},
      {"deny: allow a.com", "deny: allow *.a.com", "/egress/0/target: \"*.a.com\" is more than"},
      {"deny: allow *.a.com", "deny: allow a.com", "/egress/0/target: "},
      {"deny: allow *.x.a.com", "deny: allow *.a.com", "/egress/0/target: "},
      {"deny: deny evil.a.com, allow *.a.com", "deny: allow evil.a.com", "/egress/0/target: "},
      {"deny: allow *.a.com", "deny: allow *.ba.com", "/egress/0/target: "},
      {"deny: allow a.com", "deny: allow 8.8.8.8", "/egress/0/target: "},
      {"allow: deny a.com", "deny: allow 10.0.0.1", "/egress/0/target: "},
      {"deny: allow 10.0.0.0/8@443", "deny: allow 10.0.0.1", "/egress/0/target: "},
      {"deny: allow 10.0.0.0/8@443", "deny: allow 10.0.0.1@80", "/egress/0/target: "},
      {"deny: allow 10.0.0.0/16", "deny: allow 10.0.0.0/8", "/egress/0/target: "},
  };
  for (const auto& row : rows)
    EXPECT_THAT(shown(narrow(made(row.outer), made(row.user))), StartsWith(row.want)) << row.outer << " | " << row.user;
}

// Every pair of small policies: the result allows a name exactly when both allow it.
TEST(NarrowPolicy, AllowsWhatBothAllow) {
  const char* targets[] = {"a.com", "*.a.com", "x.a.com", "*.x.a.com"};
  std::vector<Policy> all;
  for (const char* first : targets) {
    for (const char* second : targets) {
      for (int bits = 0; bits < 8; ++bits) {
        const std::string text = std::string(bits & 1 ? "allow: " : "deny: ") + (bits & 2 ? "allow " : "deny ") +
                                 first + ", " + (bits & 4 ? "allow " : "deny ") + second;
        all.push_back(made(text));
      }
    }
  }
  int taken = 0;
  for (const Policy& outer : all) {
    const Matcher one(outer);
    for (const Policy& user : all) {
      const auto both = narrow(outer, user);
      if (!both) continue;
      ++taken;
      const Matcher two(user), result(*both);
      for (const char* name : {"a.com", "x.a.com", "y.a.com", "z.x.a.com", "other.net"}) {
        ASSERT_EQ(result.name(name).allowed(), one.name(name).allowed() && two.name(name).allowed())
            << shown(outer) << " | " << shown(user) << " | " << shown(*both) << " | " << name;
      }
    }
  }
  EXPECT_GT(taken, 1000);
}

}  // namespace
}  // namespace osb::policy
