#include "execd/run/end_reason.h"

#include <csignal>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::execd {
namespace {

constexpr sys::ExitStatus kKilled{.code = 0, .signal = SIGKILL};
constexpr sys::ExitStatus kShellSawKill{.code = 137, .signal = 0};

// A sandbox's cgroup as plain files.
class OomKillsTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((dir_ / path).parent_path());
    std::ofstream(dir_ / path, std::ios::trunc) << text;
  }
  void make_v1() {
    write("cgroup", "4:memory:/\n");
    write("mountinfo", "1 1 0:1 / " + std::string(dir_ / "memory") + " rw - cgroup cgroup rw,memory\n");
    write("memory/memory.limit_in_bytes", "268435456\n");
    write("memory/memory.usage_in_bytes", "1000\n");
    kills_file_ = "memory/memory.oom_control";
    set_kills(0);
  }
  void make_v2() {
    write("cgroup", "0::/\n");
    write("mountinfo", "1 1 0:1 / " + std::string(dir_ / "v2") + " rw - cgroup2 cgroup2 rw\n");
    write("v2/memory.max", "67108864\n");
    write("v2/memory.current", "1000\n");
    kills_file_ = "v2/memory.events";
    set_kills(0);
  }
  void set_kills(int kills) {
    write(kills_file_, "oom_kill_disable 0\nunder_oom 0\noom_kill " + std::to_string(kills) + "\n");
  }
  OomKills open() {
    stats_.emplace(sys::CgroupSources{dir_ / "cgroup", dir_ / "mountinfo"}, dir_ / "proc");
    return OomKills([this]() -> const sys::CgroupStats& { return *stats_; });
  }

  testing::TempDir dir_;
  std::string kills_file_;
  std::optional<sys::CgroupStats> stats_;
};

TEST_F(OomKillsTest, AKilledRunIsExplainedByTheCounterOfItsCgroup) {
  make_v1();
  OomKills kills = open();
  const auto start = kills.mark();
  EXPECT_FALSE(kills.explain(start, kKilled)) << "nothing was killed by the kernel";
  set_kills(1);
  const auto reason = kills.explain(start, kKilled);
  ASSERT_TRUE(reason);
  EXPECT_EQ(reason->code, "OUT_OF_MEMORY");
  EXPECT_EQ(reason->message, "out of memory (limit 256 MiB)");
}

TEST_F(OomKillsTest, AShellThatReportsItsKilledChildIsExplainedToo) {
  make_v2();
  OomKills kills = open();
  const auto start = kills.mark();
  set_kills(1);
  const auto reason = kills.explain(start, kShellSawKill);
  ASSERT_TRUE(reason);
  EXPECT_EQ(reason->message, "out of memory (limit 64 MiB)");
}

TEST_F(OomKillsTest, OtherEndsAreNotExplained) {
  make_v1();
  OomKills kills = open();
  const auto start = kills.mark();
  set_kills(1);
  EXPECT_FALSE(kills.explain(start, {.code = 0, .signal = 0}));
  EXPECT_FALSE(kills.explain(start, {.code = 1, .signal = 0}));
  EXPECT_FALSE(kills.explain(start, {.code = 0, .signal = SIGTERM}));
  EXPECT_TRUE(kills.explain(start, kKilled)) << "they took nothing away";
}

TEST_F(OomKillsTest, AKillBeforeTheRunBeganExplainsNothing) {
  make_v1();
  set_kills(3);
  OomKills kills = open();
  const auto start = kills.mark();
  EXPECT_FALSE(kills.explain(start, kKilled));
}

TEST_F(OomKillsTest, OneKillExplainsOneOfTwoRuns) {
  make_v1();
  OomKills kills = open();
  const auto first = kills.mark(), second = kills.mark();
  set_kills(1);
  EXPECT_TRUE(kills.explain(first, kKilled));
  EXPECT_FALSE(kills.explain(second, kKilled)) << "the OOM killer did not kill this one";
}

TEST_F(OomKillsTest, TwoKillsExplainTwoRuns) {
  make_v1();
  OomKills kills = open();
  const auto first = kills.mark(), second = kills.mark();
  set_kills(2);
  EXPECT_TRUE(kills.explain(first, kKilled));
  EXPECT_TRUE(kills.explain(second, kKilled));
}

TEST_F(OomKillsTest, WithoutACounterNothingIsGuessed) {
  OomKills none = open();
  EXPECT_FALSE(none.explain(none.mark(), kKilled));
  OomKills unset;
  EXPECT_FALSE(unset.explain(unset.mark(), kKilled));
}

TEST_F(OomKillsTest, WithoutALimitTheHostIsBlamed) {
  make_v2();
  write("v2/memory.max", "max\n");
  OomKills kills = open();
  const auto start = kills.mark();
  set_kills(1);
  EXPECT_EQ(kills.explain(start, kKilled)->message,
            "out of memory (no memory left on the host or for all sandboxes together)");
}

TEST_F(OomKillsTest, ALimitThatWasNotReachedIsNotBlamed) {
  const char* const from_above =
      "out of memory (no memory left on the host or for all sandboxes together; the sandbox is below its limit of ";
  make_v2();
  write(kills_file_, "oom 1\noom_kill 1\n");
  OomKills v2 = open();
  auto start = v2.mark();
  write(kills_file_, "oom 1\noom_kill 2\n");
  EXPECT_EQ(v2.explain(start, kKilled)->message, from_above + std::string("64 MiB)"));
  start = v2.mark();
  write(kills_file_, "oom 2\noom_kill 3\n");
  EXPECT_EQ(v2.explain(start, kKilled)->message, "out of memory (limit 64 MiB)");
  make_v1();
  write("memory/memory.max_usage_in_bytes", "100000000\n");
  OomKills v1 = open();
  start = v1.mark();
  set_kills(1);
  EXPECT_EQ(v1.explain(start, kKilled)->message, from_above + std::string("256 MiB)"));
  write("memory/memory.max_usage_in_bytes", "268435456\n");
  set_kills(2);
  EXPECT_EQ(v1.explain(start, kKilled)->message, "out of memory (limit 256 MiB)");
}

TEST(EndReason, IsWrittenAsTwoFieldsOrNone) {
  std::string json = "{\"a\":1";
  append_reason(json, std::nullopt);
  EXPECT_EQ(json, "{\"a\":1");
  append_reason(json, EndReason{"TIMEOUT", "timed out after 5s"});
  EXPECT_EQ(json, "{\"a\":1,\"reason\":\"TIMEOUT\",\"reason_message\":\"timed out after 5s\"");
}

}  // namespace
}  // namespace osb::execd
