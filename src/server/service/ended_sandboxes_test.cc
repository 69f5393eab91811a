#include "server/service/ended_sandboxes.h"

#include <gtest/gtest.h>

namespace osb::server {
namespace {

SandboxRecord record(std::string id, std::string message = "", std::string tenant = std::string(kDefaultTenant)) {
  SandboxRecord out;
  out.id = std::move(id);
  out.owner.tenant = std::move(tenant);
  out.status.message = std::move(message);
  return out;
}

const Timestamp kTime{std::chrono::sys_days(std::chrono::year(2026) / 1 / 2)};

TEST(EndedSandboxes, TheCauseIsRemembered) {
  EndedSandboxes ended;
  EXPECT_EQ(ended.find("a", Scope::all()), "");
  ended.note_expired(record("a"), kTime);
  ended.note_deleted(record("b"), kTime);
  ended.note_retired(record("c", "out of memory (limit 256 MiB)"), kTime);
  const std::string at = format_timestamp(kTime);
  EXPECT_EQ(ended.find("a", Scope::all()), "expired at " + at);
  EXPECT_EQ(ended.find("b", Scope::all()), "was deleted at " + at + " by an API request");
  EXPECT_EQ(ended.find("c", Scope::all()), "ended (out of memory (limit 256 MiB)) and was removed at " + at);
}

TEST(EndedSandboxes, TheCauseIsToldWithinItsTenantOnly) {
  EndedSandboxes ended;
  ended.note_expired(record("a", "", "red"), kTime);
  EXPECT_NE(ended.find("a", Scope::tenant("red")), "");
  EXPECT_EQ(ended.find("a", Scope::tenant("blue")), "");
}

TEST(EndedSandboxes, TheOldestIsForgottenFirst) {
  EndedSandboxes ended;
  for (std::size_t i = 0; i < EndedSandboxes::kMost; ++i) ended.note_deleted(record(std::to_string(i)), kTime);
  ended.note_expired(record("0"), kTime);
  EXPECT_EQ(ended.size(), EndedSandboxes::kMost) << "one more word about a known one";
  ended.note_deleted(record("new"), kTime);
  EXPECT_EQ(ended.size(), EndedSandboxes::kMost);
  EXPECT_EQ(ended.find("0", Scope::all()), "");
  EXPECT_NE(ended.find("1", Scope::all()), "");
  EXPECT_NE(ended.find("new", Scope::all()), "");
}

}  // namespace
}  // namespace osb::server
