#include "api/lifecycle_metadata.h"

#include "api/lifecycle_testing.h"

namespace osb::api {
namespace {

using testing::kParameter;
using testing::refused;

constexpr std::string_view kLabel = "SANDBOX::INVALID_METADATA_LABEL";

TEST(MetadataLabels, FollowKubernetesSyntax) {
  const std::string label63(63, 'a');
  const std::string good[] = {
      "a", "A1", "a-b_c.d", label63, "example.com/a", "a/B", "x.y.z/" + label63, std::string(253, 'p') + "/a"};
  for (const std::string& key : good) EXPECT_TRUE(check_metadata({{key, "v"}})) << key;
  const std::string bad[] = {"",      "-a",       "a-",  "a b",    "a\n",  label63 + "a",
                             "/a",    "a/",       "A/b", "a..b/c", "-a/b", "a_b/c",
                             "a/b/c", "\xc3\xa4", "a/-", ".a/b",   "a./b", std::string(254, 'p') + "/a"};
  for (const std::string& key : bad) {
    EXPECT_TRUE(refused(check_metadata({{key, "v"}}), 400, kLabel, "/metadata: key")) << key;
  }
  for (const std::string& value : {std::string(), std::string("a"), std::string("A.b_c-d"), label63}) {
    EXPECT_TRUE(check_metadata({{"k", value}})) << value;
  }
  for (const std::string& value : {std::string("-a"), std::string("a "), std::string("a\n"), label63 + "a",
                                   std::string("a/b"), std::string("a\0b", 3)}) {
    EXPECT_TRUE(refused(check_metadata({{"k", value}}), 400, kLabel, "/metadata: key \"k\"")) << value;
  }
}

TEST(MetadataLabels, OurOwnPrefixIsReserved) {
  EXPECT_TRUE(refused(check_metadata({{"opensandbox.io/id", "x"}}), 400, kLabel, "/metadata: key"));
  EXPECT_TRUE(check_metadata({{"opensandbox.io.example.com/id", "x"}}));
}

TEST(MetadataPatchRequest, TakesStringsAndNulls) {
  const auto patch = decode_metadata_patch(R"({"a":"1","b":null})");
  ASSERT_TRUE(patch) << patch.error().message;
  EXPECT_EQ(*patch, (MetadataPatch{{"a", "1"}, {"b", std::nullopt}}));
  EXPECT_TRUE(decode_metadata_patch("{}")->empty());
  Metadata metadata{{"b", "old"}, {"c", "stays"}};
  apply_patch(metadata, *patch);
  EXPECT_EQ(metadata, (Metadata{{"a", "1"}, {"c", "stays"}}));
}

TEST(MetadataPatchRequest, OtherBodiesAre422) {
  EXPECT_TRUE(refused(decode_metadata_patch(""), 422, kParameter, "body: "));
  EXPECT_TRUE(refused(decode_metadata_patch("[]"), 422, kParameter, "body: expected an object"));
  EXPECT_TRUE(refused(decode_metadata_patch(R"({"a":1})"), 422, kParameter, "/a: expected a string or null"));
  EXPECT_TRUE(refused(decode_metadata_patch(R"({"a/b":{}})"), 422, kParameter, "/a~1b: expected a string or null"));
}

TEST(MetadataPatchRules, ReservedKeysHaveACodeOfTheirOwnEvenWithNull) {
  constexpr std::string_view kReserved = "INVALID_METADATA_LABEL";
  EXPECT_TRUE(refused(check_metadata_patch({{"opensandbox.io/id", "x"}}), 400, kReserved, "body: key"));
  EXPECT_TRUE(refused(check_metadata_patch({{"opensandbox.io/id", std::nullopt}}), 400, kReserved, "body: key"));
  EXPECT_TRUE(refused(check_metadata_patch({{"a b", "x"}, {"opensandbox.io/id", "x"}}), 400, kReserved, "body: key"));
}

TEST(MetadataPatchRules, OnlyWhatIsAddedMustBeALabel) {
  EXPECT_TRUE(check_metadata_patch({{"not a label", std::nullopt}}));
  EXPECT_TRUE(refused(check_metadata_patch({{"not a label", "x"}}), 400, kLabel, "body: key"));
  EXPECT_TRUE(refused(check_metadata_patch({{"a", "not a value"}}), 400, kLabel, "body: key \"a\""));
}

}  // namespace
}  // namespace osb::api
