#include "cli/lookup/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::cli {
namespace {

using ::testing::HasSubstr;

const std::vector<Referable> kKnown = {{"3f2b8c1e", "web", false},  {"3f2b9999", "", false},  {"aaaa0000", "old", true},
                                       {"aaaa1111", "old", false},  {"bbbb", "twice", false}, {"cccc", "twice", false},
                                       {"dddd", "3f2b8c1e", false}, {"eeee", "3f2b9", false}};

TEST(Reference, AnIdWinsOverANameAndANameOverTheBeginningOfAnId) {
  struct {
    const char *given, *id;
  } rows[] = {{"3f2b8c1e", "3f2b8c1e"}, {"web", "3f2b8c1e"},    {"3f2b8", "3f2b8c1e"},
              {"3f2b9", "eeee"},        {"3f2b99", "3f2b9999"}, {"old", "aaaa1111"}};
  for (const auto& row : rows) {
    const auto chosen = choose_reference("sandbox", row.given, kKnown);
    ASSERT_TRUE(chosen) << row.given << ": " << chosen.error().message;
    EXPECT_EQ(*chosen, row.id) << row.given;
  }
}

TEST(Reference, SeveralMatchesAreListed) {
  const auto named = choose_reference("sandbox", "twice", kKnown);
  ASSERT_FALSE(named);
  EXPECT_EQ(named.error().message, "2 sandboxes are named 'twice': bbbb (twice), cccc (twice)");
  const auto begun = choose_reference("sandbox", "3f2b", kKnown);
  ASSERT_FALSE(begun);
  EXPECT_EQ(begun.error().message, "2 sandboxes have an id that begins with '3f2b': 3f2b8c1e (web), 3f2b9999");
}

TEST(Reference, NoMatchIsNotFound) {
  for (const char* given : {"nope", "we", "3f2b8c1e0"}) {
    const auto chosen = choose_reference("sandbox", given, kKnown);
    ASSERT_FALSE(chosen) << given;
    EXPECT_EQ(chosen.error().status, 404);
    EXPECT_EQ(chosen.error().message, "Sandbox '" + std::string(given) + "' not found");
  }
  const auto brief = choose_reference("sandbox", "3f", kKnown);
  ASSERT_FALSE(brief);
  EXPECT_THAT(brief.error().hint, HasSubstr("at least 3 characters"));
  EXPECT_EQ(choose_reference("snapshot", "x", {}).error().code, "SNAPSHOT::NOT_FOUND");
}

TEST(Reference, NamesAreHostNameLabels) {
  for (const char* name : {"web", "a", "web-2", "0x"}) EXPECT_TRUE(check_name(name)) << name;
  for (const std::string name : {"", "-a", "a-", "Web", "a.b", "a b", "a_b", "3f2b8c1e-0d4a-4f7e-9b61-5a2c7d8e9f10"}) {
    EXPECT_FALSE(check_name(name)) << name;
  }
  EXPECT_FALSE(check_name(std::string(64, 'a')));
}

}  // namespace
}  // namespace osb::cli
