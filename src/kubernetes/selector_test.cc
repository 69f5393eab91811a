#include "kubernetes/selector.h"

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

namespace osb::kubernetes {
namespace {

TEST(LabelSelectorTest, EveryFormSelectsWhatTheApiSays) {
  const auto pod = boost::json::parse(R"({"metadata":{"labels":{"app":"web","tier":"x","io/id":"7"}}})").as_object();
  struct {
    const char* selector;
    bool want;
  } rows[] = {
      {"", true},
      {"app=web", true},
      {"app==web", true},
      {"app = web , tier=x", true},
      {"app=db", false},
      {"app!=db", true},
      {"none!=db", true},
      {"app!=web", false},
      {"app", true},
      {"none", false},
      {"!none", true},
      {"!app", false},
      {"app in (a, web)", true},
      {"app in (a)", false},
      {"app notin (a,b)", true},
      {"app notin (web)", false},
      {"none notin (a)", true},
      {"io/id=7,app", true},
      {"app,none", false},
  };
  for (const auto& row : rows) {
    const auto selector = LabelSelector::parse(row.selector);
    ASSERT_TRUE(selector) << row.selector;
    EXPECT_EQ(selector->matches(pod), row.want) << row.selector;
  }
}

TEST(LabelSelectorTest, OtherTextsAreRefused) {
  for (const char* bad : {"=a", "a b", "a in b", "a in (b", "a=b=c", ",", "a,,b", "!", "a near (b)", "(a)"}) {
    EXPECT_FALSE(LabelSelector::parse(bad)) << bad;
  }
}

TEST(FieldSelectorTest, FieldsAreComparedAndMissingOnesAreEmpty) {
  const auto pod =
      boost::json::parse(R"({"metadata":{"name":"p"},"status":{"phase":"Running"},"spec":{"nodeName":""}})")
          .as_object();
  const auto matches = [&](const char* text) { return FieldSelector::parse(text).value().matches(pod); };
  EXPECT_TRUE(matches("metadata.name=p,status.phase!=Failed"));
  EXPECT_FALSE(matches("metadata.name=q"));
  EXPECT_TRUE(matches("spec.nodeName="));
  EXPECT_FALSE(matches("spec.nodeName!="));
  EXPECT_TRUE(matches("spec.missing="));
  EXPECT_FALSE(FieldSelector::parse("metadata.name"));
  EXPECT_FALSE(FieldSelector::parse("=x"));
}

}  // namespace
}  // namespace osb::kubernetes
