#include "server/service/ended_sandboxes.h"

#include <gtest/gtest.h>

namespace osb::server {
namespace {

const Timestamp kTime{std::chrono::sys_days(std::chrono::year(2026) / 1 / 2)};

TEST(EndedSandboxes, TheCauseIsRemembered) {
  EndedSandboxes ended;
  EXPECT_EQ(ended.find("a"), "");
  ended.note_expired("a", kTime);
  ended.note_deleted("b", kTime);
  ended.note_retired("c", kTime, "out of memory (limit 256 MiB)");
  const std::string at = format_timestamp(kTime);
  EXPECT_EQ(ended.find("a"), "expired at " + at);
  EXPECT_EQ(ended.find("b"), "was deleted at " + at + " by an API request");
  EXPECT_EQ(ended.find("c"), "ended (out of memory (limit 256 MiB)) and was removed at " + at);
}

TEST(EndedSandboxes, TheOldestIsForgottenFirst) {
  EndedSandboxes ended;
  for (std::size_t i = 0; i < EndedSandboxes::kMost; ++i) ended.note_deleted(std::to_string(i), kTime);
  ended.note_expired("0", kTime);
  EXPECT_EQ(ended.size(), EndedSandboxes::kMost) << "one more word about a known one";
  ended.note_deleted("new", kTime);
  EXPECT_EQ(ended.size(), EndedSandboxes::kMost);
  EXPECT_EQ(ended.find("0"), "");
  EXPECT_NE(ended.find("1"), "");
  EXPECT_NE(ended.find("new"), "");
}

}  // namespace
}  // namespace osb::server
