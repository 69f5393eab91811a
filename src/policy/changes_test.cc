#include "policy/changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> shown(const std::vector<Rule>& rules) {
  std::vector<std::string> out;
  for (const Rule& rule : rules) out.push_back(std::string(to_string(rule.action)) + " " + rule.text);
  return out;
}

Policy old_policy() {
  return *parse_policy(
      R"({"defaultAction":"allow","egress":[{"action":"allow","target":"a.com"},{"action":"deny","target":"*.a.com"}]})");
}

TEST(PolicyChanges, PatchPutsItsRulesFirst) {
  const auto change = patch_policy(old_policy(), R"([{"action":"deny","target":"b.com"},
                                                     {"action":"allow","target":"A.COM"}])");
  ASSERT_TRUE(change) << change.error().message;
  EXPECT_THAT(shown(change->policy.egress), ElementsAre("deny b.com", "allow A.COM", "deny *.a.com"));
  EXPECT_EQ(change->policy.default_action, Action::Allow) << "kept";
  EXPECT_THAT(shown(change->rules), ElementsAre("deny b.com", "allow A.COM"));
}

TEST(PolicyChanges, FirstDuplicateOfAPatchWins) {
  const auto change = patch_policy({}, R"([{"action":"allow","target":"x"},{"action":"deny","target":"x"}])");
  EXPECT_THAT(shown(change->policy.egress), ElementsAre("allow x"));
}

TEST(PolicyChanges, RulesOfOtherPortsAreOtherRules) {
  const auto old = *parse_policy(R"({"egress":[{"action":"allow","target":"10.0.0.0/8","ports":[443,80]},
                                               {"action":"allow","target":"10.0.0.0/8"}]})");
  const auto change = patch_policy(old, R"([{"action":"deny","target":"10.0.0.0/8","ports":[80,443]},
                                            {"action":"deny","target":"10.0.0.0/8","ports":[22]}])");
  ASSERT_TRUE(change);
  EXPECT_THAT(shown(change->policy.egress), ElementsAre("deny 10.0.0.0/8", "deny 10.0.0.0/8", "allow 10.0.0.0/8"));
  EXPECT_THAT(change->policy.egress.back().ports, IsEmpty());
}

TEST(PolicyChanges, PatchNeedsAtLeastOneRule) {
  for (const char* body : {"", " ", "null", "[]", "{}", "\"a\"", "[{}]", "[null]", R"([{"target":"*"}])"}) {
    const auto change = patch_policy({}, body);
    ASSERT_FALSE(change) << body;
    EXPECT_EQ(change.error().code, Code::InvalidRequest) << body;
  }
}

TEST(PolicyChanges, DeleteComparesTextWithoutCase) {
  const auto old = *parse_policy(R"({"egress":[{"target":"example.com"},{"target":"10.0.0.0/8"},{"target":"B.com"},
                                               {"target":"*.example.com"},{"action":"allow","ports":[1]}]})");
  const auto change = delete_targets(old, R"([" EXAMPLE.com ","", "b.COM.","10.0.0.0/8"])");
  ASSERT_TRUE(change) << change.error().message;
  EXPECT_THAT(shown(change->policy.egress), ElementsAre("deny *.example.com", "allow "));
  EXPECT_THAT(shown(change->rules), ElementsAre("deny example.com", "deny 10.0.0.0/8", "deny B.com"));
  EXPECT_FALSE(change->unchanged);
}

TEST(PolicyChanges, DeleteOfOtherTargetsChangesNothing) {
  for (const char* body : {R"(["other.com"])", R"([""])", R"([" "])"}) {
    const auto change = delete_targets(old_policy(), body);
    ASSERT_TRUE(change) << body;
    EXPECT_TRUE(change->unchanged);
    EXPECT_THAT(change->reason, HasSubstr("no matching targets found"));
    EXPECT_EQ(change->policy, old_policy());
  }
  for (const char* body : {"", "[]", "null", "{}", "[1]", "[null]", "[\"a\"", "\"a\""}) {
    const auto change = delete_targets(old_policy(), body);
    ASSERT_FALSE(change) << body;
    EXPECT_EQ(change.error().code, Code::InvalidRequest) << body;
  }
}

TEST(PolicyChanges, ReplaceTakesTheBodyAsItIs) {
  const auto reset = replace_policy(" \n");
  ASSERT_TRUE(reset);
  EXPECT_TRUE(reset->reset);
  EXPECT_FALSE(reset->reason.empty());
  EXPECT_EQ(reset->policy, Policy{});
  const auto empty = replace_policy("{}");
  ASSERT_TRUE(empty);
  EXPECT_FALSE(empty->reset);
  EXPECT_EQ(replace_policy(R"({"defaultAction":"allow"})")->policy.default_action, Action::Allow);
}

TEST(PolicyChanges, LimitOnRulesCountsTheResult) {
  const Policy old = old_policy();
  const auto added = patch_policy(old, R"([{"action":"allow","target":"new.com"}])", 2);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Code::TooLarge);
  EXPECT_EQ(old, old_policy());
  EXPECT_TRUE(patch_policy(old, R"([{"action":"deny","target":"a.com"}])", 2)) << "it replaces a rule";
  EXPECT_TRUE(patch_policy(old, R"([{"action":"allow","target":"new.com"}])", 0)) << "0 is no limit";
  const auto replaced = replace_policy(R"({"egress":[{"target":"a"},{"target":"b"},{"target":"c"}]})", 2);
  ASSERT_FALSE(replaced);
  EXPECT_EQ(replaced.error().code, Code::TooLarge);
}

TEST(PolicyChanges, HugePoliciesAreRefused) {
  std::string body = R"({"egress":[)";
  for (int i = 0; i < 100000; ++i)
    body += (i == 0 ? "" : ",") + std::string(R"({"target":"a)") + std::to_string(i) + "\"}";
  const auto huge = replace_policy(body + "]}");
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code, Code::TooLarge);
  const auto many = replace_policy(body.substr(0, body.find(",{\"target\":\"a4097\"")) + "]}");
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().code, Code::TooLarge);
}

}  // namespace
}  // namespace osb::policy
