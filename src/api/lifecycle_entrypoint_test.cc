#include "api/lifecycle_entrypoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::api {
namespace {

using ::testing::ElementsAre;

TEST(EntrypointWords, OneStringWithASpaceIsSplit) {
  EXPECT_THAT(*entrypoint_words({"tail -f /dev/null"}), ElementsAre("tail", "-f", "/dev/null"));
  EXPECT_THAT(*entrypoint_words({"sh -c 'echo \"a b\"' \"x \\\" y\" \\  ''"}),
              ElementsAre("sh", "-c", "echo \"a b\"", "x \" y", " ", ""));
  EXPECT_THAT(*entrypoint_words({" echo $HOME\t`id` * "}), ElementsAre("echo", "$HOME", "`id`", "*"));
}

TEST(EntrypointWords, OtherEntrypointsStayAsTheyAre) {
  EXPECT_THAT(*entrypoint_words({"my program", "-v"}), ElementsAre("my program", "-v"));
  EXPECT_THAT(*entrypoint_words({"tail"}), ElementsAre("tail"));
  EXPECT_THAT(*entrypoint_words({"don't"}), ElementsAre("don't"));
  EXPECT_TRUE(entrypoint_words({})->empty());
}

TEST(EntrypointWords, AnUnfinishedLineIsRefused) {
  for (const char* line : {"sh -c 'x", "sh -c \"x", "sh \\"}) {
    const auto words = entrypoint_words({line});
    ASSERT_FALSE(words) << line;
    EXPECT_EQ(words.error().code, Code::InvalidRequest);
    EXPECT_TRUE(words.error().message.starts_with("/entrypoint")) << words.error().message;
  }
}

}  // namespace
}  // namespace osb::api
