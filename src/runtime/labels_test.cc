#include "runtime/labels.h"

#include <gtest/gtest.h>

namespace osb::runtime {
namespace {

api::CreateSandbox sample() {
  api::CreateSandbox create;
  create.platform = api::Platform{"linux", "amd64"};
  create.metadata = api::StringMap{{"team", "a"}, {"example.com/x", ""}};
  create.extensions["access.renew.extend.seconds"] = " 300 ";
  create.extensions["opensandbox.extensions.team"] = "x";
  create.snapshot_id = "s";
  create.secure_access = true;
  return create;
}

TEST(Labels, SayWhatASandboxWasMadeWith) {
  const Timestamp end(std::chrono::seconds(1'900'000'000));
  const api::StringMap labels = make_labels("x", sample(), end);
  EXPECT_EQ(labels.at("opensandbox.io/expires-at"), "2030-03-17T17:46:40+00:00");
  EXPECT_FALSE(labels.contains("opensandbox.io/manual-cleanup"));
  const auto read = read_labels("x", labels);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->expires_at, end);
  EXPECT_EQ(read->platform, sample().platform);
  EXPECT_EQ(read->snapshot_id, "s");
  EXPECT_TRUE(read->secure_access);
  EXPECT_EQ(read->access_renew, "300");
  EXPECT_EQ(read->metadata, sample().metadata);
  EXPECT_EQ(labels.at("opensandbox.io/extensions.team"), "x");
  EXPECT_EQ(read->extensions, (api::StringMap{{"opensandbox.extensions.team", "x"}}));
}

TEST(Labels, SayThatOneLivesUntilItIsDeleted) {
  const auto read = read_labels("x", make_labels("x", {}, std::nullopt));
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->expires_at);
  EXPECT_FALSE(read->metadata);
}

TEST(Labels, TellOthersApart) {
  EXPECT_EQ(read_labels("x", {}).error().code, Code::NotFound);
  EXPECT_EQ(read_labels("x", {{"opensandbox.io/id", ""}}).error().code, Code::NotFound);
  EXPECT_EQ(read_labels("x", make_labels("y", {}, std::nullopt)).error().code, Code::NotFound);
  EXPECT_EQ(read_labels("x", {{"opensandbox.io/id", "x"}}).error().code, Code::InvalidRequest);
  EXPECT_EQ(read_labels("x", {{"opensandbox.io/id", "x"}, {"opensandbox.io/expires-at", "soon"}}).error().code,
            Code::InvalidRequest);
  auto others = make_labels("x", {}, std::nullopt);
  others["com.docker.compose"] = "1";
  EXPECT_FALSE(read_labels("x", others)->metadata);
}

}  // namespace
}  // namespace osb::runtime
