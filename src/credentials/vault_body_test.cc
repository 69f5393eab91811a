#include "credentials/vault_body.h"

#include <gtest/gtest.h>

namespace osb::credentials {
namespace {

TEST(VaultBody, EntriesOfAPostAndAPatchAreFound) {
  const auto post = VaultBody::parse(
      R"({"credentials":[{"name":"a","source":{"type":"operator","entry":"key"}},{"name":"b","source":{"value":"v"}}],
          "bindings":[{"name":"x","auth":{"type":"bearer","credential":"a"}},
                      {"name":"y","auth":{"type":"bearer","credential":"b"}},
                      {"name":"z","auth":{"type":"passthrough","substitutions":[{"credential":"a"}]}}]})");
  ASSERT_TRUE(post);
  ASSERT_EQ((*post)->named().size(), 1u);
  EXPECT_EQ((*post)->named()[0].credential, "a");
  EXPECT_EQ((*post)->named()[0].entry, "key");
  EXPECT_EQ((*post)->named()[0].bindings, "x,z");
  const auto patch = VaultBody::parse(
      R"({"Credentials":{"add":[{"NAME":"a","source":{"Type":" operator ","entry":"e"}}],
          "replace":[{"name":"b","source":{"type":"operator","entry":"f"}}],"delete":["c"]}})");
  ASSERT_TRUE(patch);
  ASSERT_EQ((*patch)->named().size(), 2u);
  EXPECT_EQ((*patch)->named()[1].entry, "f");
  for (const char* other : {"[]", "7", "{}", R"({"credentials":7})", R"({"credentials":[1,{"source":2}]})",
                            R"({"credentials":[{"name":"a","source":{"type":"inline","entry":"e","value":"v"}}]})"}) {
    const auto body = VaultBody::parse(other);
    ASSERT_TRUE(body) << other;
    EXPECT_TRUE((*body)->named().empty()) << other;
  }
  EXPECT_FALSE(VaultBody::parse("{"));
}

TEST(VaultBody, TheServersValueReplacesEverythingThatTheRequestSaid) {
  const auto body = VaultBody::parse(
      R"({"credentials":[{"name":"a","source":{"TYPE":"operator","entry":"key","value":"forged","Hosts":["evil.org"],
          "expiresAt":"2999-01-01"}}],"bindings":[]})");
  ASSERT_TRUE(body);
  Entry entry;
  entry.name = "key";
  entry.hosts = {"api.example.com"};
  VaultBody::fill((*body)->named().front(), entry, Fetched{.value = vault::SecretText("va\"lue")});
  EXPECT_EQ((*body)->serialize(),
            R"({"credentials":[{"name":"a","source":{"type":"operator","entry":"key","value":"va\"lue",)"
            R"("hosts":["api.example.com"]}}],"bindings":[]})");
}

}  // namespace
}  // namespace osb::credentials
