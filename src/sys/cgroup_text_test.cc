#include "sys/cgroup_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sys/mountinfo.h"

namespace osb::sys {
namespace {

using ::testing::ElementsAre;

TEST(CgroupText, NumbersAreWholeLines) {
  EXPECT_EQ(parse_cgroup_number("4096\n"), 4096U);
  EXPECT_EQ(parse_cgroup_number("7"), 7U);
  for (const char* text : {"", "max\n", "-1\n", "12 34\n", " 5\n"}) EXPECT_FALSE(parse_cgroup_number(text)) << text;
}

TEST(CgroupText, AKeyIsAWholeWord) {
  constexpr const char* kStat = "oom 1\noom_kill 3\noom_kill_group x\n";
  EXPECT_EQ(parse_cgroup_key(kStat, "oom"), 1U);
  EXPECT_EQ(parse_cgroup_key(kStat, "oom_kill"), 3U);
  EXPECT_FALSE(parse_cgroup_key(kStat, "oom_kill_group"));
  EXPECT_FALSE(parse_cgroup_key(kStat, "kill"));
}

TEST(CgroupText, MembersOfOtherPidNamespacesAreLeftOut) {
  EXPECT_THAT(parse_cgroup_pids("12\n0\n7\nx\n-3\n99999999999\n"), ElementsAre(12, 7));
}

TEST(CgroupText, Events) {
  EXPECT_TRUE(parse_cgroup_events("populated 1\nfrozen 0\n").populated);
  EXPECT_TRUE(parse_cgroup_events("populated 0\nfrozen 1\n").frozen);
  EXPECT_FALSE(parse_cgroup_events("populated 10\n").populated);
}

TEST(Mountinfo, FieldsAndEscapes) {
  const auto entries = parse_mountinfo(
      "40 31 0:37 /a\\040b /mnt/c\\134d rw,nosuid shared:9 master:1 - cgroup2 none rw,nsdelegate\n"
      "41 31 0:38 / /short\n"
      "nonsense\n");
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].root, "/a b");
  EXPECT_EQ(entries[0].point, "/mnt/c\\d");
  EXPECT_EQ(entries[0].type, "cgroup2");
  EXPECT_EQ(entries[0].super_options, "rw,nsdelegate");
}

}  // namespace
}  // namespace osb::sys
