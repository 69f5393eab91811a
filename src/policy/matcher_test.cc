#include "policy/matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/lifetime.h"

namespace osb::policy {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

struct Row {
  const char* name;
  bool allowed;
};

void expect_names(const Matcher& matcher, std::initializer_list<Row> rows) {
  for (const Row& row : rows) EXPECT_EQ(matcher.name(row.name).allowed(), row.allowed) << row.name;
}

bool reaches(const Matcher& matcher, std::string_view address, std::uint16_t port, Transport how = Transport::Tcp) {
  return matcher.address(*parse_ip_address(address), how, port).allowed();
}

TEST(PolicyMatcher, FirstMatchByPositionWins) {
  const Matcher matcher(*parse_policy(R"({"egress":[{"action":"allow","target":"*.example.com"},
                                                    {"action":"deny","target":"api.example.com"}]})"));
  expect_names(matcher, {{"api.example.com", true}, {"a.b.example.com", true}, {"example.com", false}});
  EXPECT_EQ(matcher.name("api.example.com").rule->text, "*.example.com");
  EXPECT_EQ(matcher.name("example.com").rule, nullptr) << "the default";
  const Matcher reversed(*parse_policy(R"({"egress":[{"action":"deny","target":"api.example.com"},
                                                     {"action":"allow","target":"*.example.com"}]})"));
  expect_names(reversed, {{"api.example.com", false}, {"www.example.com", true}, {"x.api.example.com", true}});
}

TEST(PolicyMatcher, WildcardsEndAtALabel) {
  const Matcher matcher(*parse_policy(R"({"egress":[{"action":"allow","target":"*.example.com"},
                                                    {"action":"allow","target":"exact.org"}]})"));
  expect_names(matcher, {{"badexample.com", false},
                         {"x.example.com.evil.org", false},
                         {"com", false},
                         {"exact.org", true},
                         {"sub.exact.org", false},
                         {"notexact.org", false}});
}

TEST(PolicyMatcher, AddressesDoNotTakePartInNames) {
  const Matcher matcher(*parse_policy(R"({"egress":[{"action":"allow","target":"0.0.0.0/0"},
                                                    {"action":"allow","ports":[443]}]})"));
  expect_names(matcher, {{"example.com", false}});
}

TEST(PolicyMatcher, DenyBeatsAllowForAddresses) {
  const Matcher matcher(*parse_policy(R"({"egress":[{"action":"allow","target":"10.0.0.0/8"},
                                                    {"action":"deny","target":"10.1.0.0/16"},
                                                    {"action":"allow","target":"10.1.1.1"},
                                                    {"action":"allow","target":"2001:db8::/32"}]})"));
  EXPECT_TRUE(reaches(matcher, "10.2.0.1", 80));
  EXPECT_TRUE(reaches(matcher, "10.2.0.1", 80, Transport::Other));
  EXPECT_FALSE(reaches(matcher, "10.1.1.1", 80)) << "the deny rule, in any order";
  EXPECT_FALSE(reaches(matcher, "11.0.0.1", 80));
  EXPECT_TRUE(reaches(matcher, "2001:db8::1", 80));
  EXPECT_FALSE(reaches(matcher, "2001:db9::1", 80));
  EXPECT_NE(matcher.denies(*parse_ip_address("10.1.9.9")), nullptr);
  EXPECT_EQ(matcher.denies(*parse_ip_address("10.2.0.1")), nullptr);
  EXPECT_NE(matcher.allows(*parse_ip_address("10.2.0.1")), nullptr);
  EXPECT_EQ(matcher.allows(*parse_ip_address("1.1.1.1")), nullptr) << "the default is no rule";
}

TEST(PolicyMatcher, PortsNarrowARuleToTcp) {
  const Matcher matcher(*parse_policy(R"({"egress":[{"action":"allow","ports":[443]},
                                                    {"action":"allow","target":"1.1.1.1","ports":[53,80]},
                                                    {"action":"deny","target":"9.9.9.0/24","ports":[443]}]})"));
  EXPECT_TRUE(reaches(matcher, "8.8.8.8", 443));
  EXPECT_TRUE(reaches(matcher, "2001:db8::1", 443)) << "every address, of both families";
  EXPECT_FALSE(reaches(matcher, "8.8.8.8", 443, Transport::Other));
  EXPECT_FALSE(reaches(matcher, "8.8.8.8", 80));
  EXPECT_TRUE(reaches(matcher, "1.1.1.1", 80));
  EXPECT_TRUE(reaches(matcher, "1.1.1.1", 443));
  EXPECT_FALSE(reaches(matcher, "9.9.9.9", 443));
  EXPECT_EQ(matcher.denies(*parse_ip_address("9.9.9.9")), nullptr) << "its other ports may open";
  EXPECT_EQ(matcher.allows(*parse_ip_address("1.1.1.1")), nullptr) << "not on all ports";
}

TEST(PolicyMatcher, DefaultAllowWithDenyRules) {
  const Matcher matcher(*parse_policy(R"({"defaultAction":"allow","egress":[{"action":"deny","target":"*.github.com"},
                                                                            {"action":"deny","target":"10.0.0.0/8"}]})"));
  expect_names(matcher, {{"api.github.com", false}, {"github.com", true}});
  EXPECT_FALSE(reaches(matcher, "10.0.0.1", 80));
  EXPECT_TRUE(reaches(matcher, "1.1.1.1", 443));
}

TEST(PolicyMatcher, OverlaysComeBeforeTheUser) {
  const Overlays overlays{.deny = *parse_overlay("# closed\n\n  bad.com \r\n*.evil.org\n9.9.9.9\n", Action::Deny),
                          .allow = *parse_overlay("bad.com\nproxy.corp\n8.8.8.8", Action::Allow)};
  ASSERT_THAT(overlays.deny, SizeIs(3));
  const Policy user = *parse_policy(R"({"egress":[{"action":"allow","target":"bad.com"},
      {"action":"deny","target":"proxy.corp"},{"action":"allow","target":"x.evil.org"},
      {"action":"allow","target":"9.9.9.9"},{"action":"deny","target":"8.8.8.8"}]})");
  const Matcher matcher(user, overlays);
  expect_names(matcher, {{"bad.com", false}, {"x.evil.org", false}, {"proxy.corp", true}});
  EXPECT_FALSE(reaches(matcher, "9.9.9.9", 443)) << "deny.always";
  EXPECT_FALSE(reaches(matcher, "8.8.8.8", 443)) << "a user's deny beats allow.always for addresses";
  EXPECT_THAT(user.egress, SizeIs(5)) << "the user's policy has no rules of the operator";
}

TEST(PolicyMatcher, OneWrongLineRefusesAnOverlay) {
  const auto overlay = parse_overlay("good.com\n\n*.a.*.com\n", Action::Allow);
  ASSERT_FALSE(overlay);
  EXPECT_THAT(overlay.error().message, HasSubstr("line 3, \"*.a.*.com\": "));
  EXPECT_FALSE(parse_overlay("a.com # no comment here", Action::Deny));
}

// Compares the index with a plain walk through the rules, for thousands of names and addresses.
TEST(PolicyMatcher, AgreesWithAWalkThroughTheRules) {
  std::uint32_t seed = 7;
  const auto random = [&](std::uint32_t below) {
    seed = seed * 1664525 + 1013904223;
    return (seed >> 16) % below;
  };
  const auto random_name = [&] {
    std::string out;
    for (std::uint32_t i = random(3); i > 0; --i) out += std::string(1, static_cast<char>('a' + random(3))) + ".";
    return out + "ab"[random(2)] + ".com";
  };
  Policy policy;
  for (int i = 0; i < 60; ++i) {
    const Action action = random(2) == 0 ? Action::Allow : Action::Deny;
    std::string target = random_name();
    if (random(2) == 0) target = "*." + target;
    if (random(3) == 0)
      target =
          "10." + std::to_string(random(4)) + "." + std::to_string(random(4)) + ".0/" + std::to_string(8 + random(20));
    policy.egress.push_back(*make_rule(action, target));
  }
  const Matcher matcher(policy);
  for (int i = 0; i < 3000; ++i) {
    const std::string name = random_name();
    const Rule* first = nullptr;
    for (const Rule& rule : policy.egress) {
      const auto* target = std::get_if<NameTarget>(&rule.target);
      if (target == nullptr || first != nullptr) continue;
      if (target->below ? name.ends_with("." + target->name) : name == target->name) first = &rule;
    }
    const Verdict verdict = matcher.name(name);
    ASSERT_EQ(verdict.rule == nullptr, first == nullptr) << name;
    if (first != nullptr) ASSERT_EQ(*verdict.rule, *first) << name;

    const IpAddress address = IpAddress::v4(0x0a000000 | random(4) << 16 | random(4) << 8 | random(256));
    Action want = Action::Deny;
    bool denied = false;
    for (const Rule& rule : policy.egress) {
      const auto* prefix = std::get_if<IpPrefix>(&rule.target);
      if (prefix == nullptr || !prefix->contains(address)) continue;
      if (rule.action == Action::Deny) denied = true;
      want = Action::Allow;
    }
    if (denied) want = Action::Deny;
    ASSERT_EQ(matcher.address(address, Transport::Tcp, 80).action, want) << format_ip_address(address);
  }
}

TEST(PolicyLifetime, IsAMinuteLongerThanTheTtlWithinLimits) {
  EXPECT_EQ(open_lifetime(0).count(), 60);
  EXPECT_EQ(open_lifetime(10).count(), 70);
  EXPECT_EQ(open_lifetime(120).count(), 180);
  EXPECT_EQ(open_lifetime(9999).count(), 360);
  EXPECT_EQ(open_lifetime(0xffffffff).count(), 360);
}

}  // namespace
}  // namespace osb::policy
