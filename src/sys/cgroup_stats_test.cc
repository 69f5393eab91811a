#include "sys/cgroup_stats.h"

#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "sys/proc_stats.h"

namespace osb::sys {
namespace {

class StatsTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((dir_ / path).parent_path());
    std::ofstream(dir_ / path, std::ios::trunc) << text;
  }
  std::string at(const std::string& path) const { return dir_ / path; }
  CgroupStats stats() { return CgroupStats({at("cgroup"), at("mountinfo")}, at("proc")); }

  void make_v2() {
    write("cgroup", "0::/pod/box\n");
    write("mountinfo", "1 1 0:1 / " + at("sys") + " rw - cgroup2 cgroup2 rw\n");
    write("sys/pod/box/cpu.max", "max 100000\n");
    write("sys/pod/box/cpu.stat", "usage_usec 1500000\nuser_usec 1\n");
    write("sys/pod/box/memory.max", "max\n");
  }
  void make_v1() {
    write("cgroup", "3:cpu,cpuacct:/box\n4:memory:/box\n");
    write("mountinfo", "1 1 0:1 / " + at("cpu") + " rw - cgroup cgroup rw,cpu,cpuacct\n2 1 0:2 / " + at("memory") +
                           " rw - cgroup cgroup rw,memory\n");
    write("cpu/box/cpu.cfs_quota_us", "-1\n");
    write("cpu/box/cpu.cfs_period_us", "100000\n");
    write("cpu/box/cpuacct.usage", "2500000000\n");
    write("memory/box/memory.limit_in_bytes", "9223372036854771712\n");
  }
  void make_host() {
    write("proc/meminfo",
          "MemTotal:       1000 kB\nMemFree:         300 kB\nMemAvailable:    800 kB\nBuffers:          50 kB\n"
          "Cached:          100 kB\nSwapCached:       9 kB\nSReclaimable:     50 kB\n");
  }

  testing::TempDir dir_;
};

TEST_F(StatsTest, V2QuotaUsageAndLimits) {
  make_v2();
  make_host();
  const double all = stats().cpu_count();
  EXPECT_GE(all, 1);
  EXPECT_EQ(stats().cpu_used(), std::chrono::milliseconds(1500));
  EXPECT_FALSE(stats().memory().limited);

  write("sys/pod/box/cpu.max", "50000 100000\n");
  write("sys/pod/box/memory.max", "512000\n");
  write("sys/pod/box/memory.current", "300000\n");
  write("sys/pod/box/memory.stat", "anon 5\ninactive_file 100000\nactive_file 7\n");
  EXPECT_DOUBLE_EQ(stats().cpu_count(), 0.5);
  const auto memory = stats().memory();
  EXPECT_TRUE(memory.limited);
  EXPECT_EQ(memory.total_bytes, 512000U);
  EXPECT_EQ(memory.used_bytes, 200000U);
}

TEST_F(StatsTest, AnAncestorsTighterLimitCounts) {
  make_v2();
  make_host();
  write("sys/pod/box/cpu.max", "80000 100000\n");
  write("sys/pod/cpu.max", "25000 100000\n");
  write("sys/pod/box/memory.max", "900000\n");
  write("sys/pod/memory.max", "400000\n");
  write("sys/pod/memory.current", "450000\n");
  EXPECT_DOUBLE_EQ(stats().cpu_count(), 0.25);
  EXPECT_EQ(stats().memory().total_bytes, 400000U);
  EXPECT_EQ(stats().memory().used_bytes, 400000U) << "never more than the total";
}

TEST_F(StatsTest, V1QuotaUsageAndLimits) {
  make_v1();
  make_host();
  EXPECT_GE(stats().cpu_count(), 1) << "-1 is no quota";
  EXPECT_EQ(stats().cpu_used(), std::chrono::milliseconds(2500));
  EXPECT_FALSE(stats().memory().limited) << "the highest number is no limit";

  write("cpu/box/cpu.cfs_quota_us", "75000\n");
  write("memory/box/memory.limit_in_bytes", "600000\n");
  write("memory/box/memory.usage_in_bytes", "500000\n");
  write("memory/box/memory.stat", "inactive_file 1\ntotal_inactive_file 123\n");
  EXPECT_DOUBLE_EQ(stats().cpu_count(), 0.75);
  EXPECT_EQ(stats().memory().total_bytes, 600000U);
  EXPECT_EQ(stats().memory().used_bytes, 499877U);
}

TEST_F(StatsTest, ALimitAboveTheHostsMemoryIsTheHosts) {
  make_v1();
  make_host();
  write("memory/box/memory.limit_in_bytes", "99000000\n");
  write("memory/box/memory.usage_in_bytes", "5000\n");
  EXPECT_EQ(stats().memory().total_bytes, 1000U * 1024);
  EXPECT_EQ(stats().memory().used_bytes, 5000U);
}

TEST_F(StatsTest, WithoutALimitTheTotalIsTheHostsAndTheUseIsOurs) {
  make_v1();
  make_host();
  write("memory/box/memory.usage_in_bytes", "5000\n");
  write("memory/box/memory.stat", "total_inactive_file 1000\n");
  EXPECT_FALSE(stats().memory().limited);
  EXPECT_EQ(stats().memory().total_bytes, 1000U * 1024);
  EXPECT_EQ(stats().memory().used_bytes, 4000U);
}

TEST_F(StatsTest, V2WithoutALimitCountsOurUseToo) {
  make_v2();
  make_host();
  write("sys/pod/box/memory.current", "7000\n");
  EXPECT_FALSE(stats().memory().limited);
  EXPECT_EQ(stats().memory().total_bytes, 1000U * 1024);
  EXPECT_EQ(stats().memory().used_bytes, 7000U);
}

TEST_F(StatsTest, KillsForWantOfMemoryAreThoseOfOurCgroup) {
  EXPECT_EQ(stats().oom_kills(), std::nullopt) << "nothing counts them";
  make_v2();
  EXPECT_EQ(stats().oom_kills(), std::nullopt) << "no memory controller";
  write("sys/pod/box/memory.events", "low 0\noom 9\noom_kill 2\noom_group_kill 0\n");
  EXPECT_EQ(stats().oom_kills(), 2U);
  EXPECT_EQ(stats().limit_hits(), 9U);
  make_v1();
  write("memory/box/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  EXPECT_EQ(stats().oom_kills(), 3U);
  EXPECT_EQ(stats().limit_hits(), std::nullopt);
  EXPECT_EQ(stats().peak_was_limit(), std::nullopt);
  write("memory/box/memory.limit_in_bytes", "33554432\n");
  write("memory/box/memory.max_usage_in_bytes", "20000000\n");
  EXPECT_EQ(stats().peak_was_limit(), false);
  write("memory/box/memory.max_usage_in_bytes", "33550336\n");
  EXPECT_EQ(stats().peak_was_limit(), true);
}

TEST_F(StatsTest, GivenFilesAreReadInsteadOfWhatCanBeSeen) {
  make_v1();
  make_host();
  write("memory/box/memory.usage_in_bytes", "5000\n");
  auto files = std::make_shared<CgroupFiles>();
  const auto give = [&](const std::string& name, const std::string& text) {
    write("given/" + name, text);
    files->insert_or_assign(name, UniqueFd(::open(at("given/" + name).c_str(), O_RDONLY | O_CLOEXEC)));
  };
  const auto given = [&] { return CgroupStats({at("cgroup"), at("mountinfo")}, at("proc"), files); };
  EXPECT_EQ(given().cpu_used(), std::chrono::milliseconds(2500)) << "no such file was given";
  give("cpu.stat", "usage_usec 1000\nuser_usec 1\n");
  EXPECT_EQ(given().cpu_used(), std::chrono::milliseconds(1));
  write("given/cpu.stat", "usage_usec 3000\n");
  EXPECT_EQ(given().cpu_used(), std::chrono::milliseconds(3)) << "read anew each time";
  EXPECT_EQ(given().memory().used_bytes, 5000U);

  give("memory.current", "900\n");
  give("memory.max", "max\n");
  give("memory.stat", "inactive_file 100\n");
  give("memory.events", "oom_kill 4\n");
  EXPECT_EQ(given().memory().used_bytes, 800U);
  EXPECT_EQ(given().memory().total_bytes, 1000U * 1024);
  EXPECT_EQ(given().oom_kills(), 4U);
  give("memory.max", "2000\n");
  EXPECT_TRUE(given().memory().limited);
  EXPECT_EQ(given().memory().total_bytes, 2000U);
  give("cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(given().cpu_count(), 0.5);
}

TEST_F(StatsTest, WithoutCgroupsTheHostAnswers) {
  make_host();
  EXPECT_GE(stats().cpu_count(), 1);
  EXPECT_FALSE(stats().cpu_used());
  EXPECT_EQ(stats().memory().total_bytes, 1000U * 1024);
  EXPECT_EQ(stats().memory().used_bytes, 500U * 1024);
}

TEST_F(StatsTest, NothingAtAllIsZeros) {
  EXPECT_EQ(stats().memory().total_bytes, 0U);
  EXPECT_FALSE(host_memory(at("proc")));
  EXPECT_FALSE(host_cpu_time(at("proc")));
  EXPECT_EQ(process_count(at("proc")), 0U);
  EXPECT_EQ(network_bytes(at("proc")).sent, 0U);
  EXPECT_EQ(socket_counts(at("proc")).tcp, 0U);
}

TEST_F(StatsTest, TheMeterComparesTwoSamplesOfTheHost) {
  write("proc/stat", "cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 2 3\n");
  const CgroupStats none = stats();
  CpuMeter meter(none, at("proc"));
  EXPECT_EQ(meter.percent(), 0) << "no time has passed";
  write("proc/stat", "cpu  130 0 120 740 110 0 0 0 30 0\n");  // 50 of 100 ticks; guest time is in user time
  EXPECT_DOUBLE_EQ(meter.percent(), 50);
  EXPECT_DOUBLE_EQ(meter.percent(), 50) << "the last answer stands until time has passed";
}

TEST_F(StatsTest, TheMeterStaysBetweenZeroAndAHundred) {
  make_v2();
  const CgroupStats v2 = stats();
  CpuMeter meter(v2, at("proc"));
  write("sys/pod/box/cpu.stat", "usage_usec 900000000000\n");
  EXPECT_DOUBLE_EQ(meter.percent(), 100);
  write("sys/pod/box/cpu.stat", "usage_usec 0\n");
  EXPECT_DOUBLE_EQ(meter.percent(), 0);
}

TEST_F(StatsTest, NetworkCountsWithoutLoopback) {
  write("proc/net/dev",
        "Inter-|   Receive                                                |  Transmit\n"
        " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n"
        "    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0\n"
        "  eth0:1000 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0\n"
        "eth0:1: 10 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0\n");
  EXPECT_EQ(network_bytes(at("proc")).received, 1010U);
  EXPECT_EQ(network_bytes(at("proc")).sent, 2020U);
}

TEST_F(StatsTest, SocketsOfBothFamilies) {
  write("proc/net/sockstat",
        "sockets: used 300\nTCP: inuse 5 orphan 0 tw 9 alloc 7 mem 1\nUDP: inuse 2 mem 3\nUDPLITE: inuse 4\n");
  write("proc/net/sockstat6", "TCP6: inuse 3\nUDP6: inuse 1\n");
  EXPECT_EQ(socket_counts(at("proc")).tcp, 8U);
  EXPECT_EQ(socket_counts(at("proc")).udp, 3U);
}

TEST(StatsOnThisHost, AreSane) {
  const CgroupStats stats;
  EXPECT_GT(stats.cpu_count(), 0);
  const auto memory = stats.memory();
  EXPECT_GT(memory.total_bytes, 16U << 20);
  EXPECT_GT(memory.used_bytes, 0U);
  EXPECT_LE(memory.used_bytes, memory.total_bytes);
  EXPECT_GE(process_count(), 1U);
  ASSERT_TRUE(host_cpu_time());
  EXPECT_GT(host_cpu_time()->busy, 0U);
  CpuMeter meter(stats);
  // Burn 50 ms of CPU time: it must show, even with other load.
  const std::clock_t end = std::clock() + CLOCKS_PER_SEC / 20;
  while (std::clock() < end) {
  }
  EXPECT_GT(meter.percent(), 0);
}

}  // namespace
}  // namespace osb::sys
