#include "kernel/cgroup_controller.h"

#include <filesystem>
#include <fstream>
#include <sys/sysmacros.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "sys/text_file.h"

// On directories of plain files: checks the written files. limited_cgroup_test checks that the kernel understands them.

namespace osb::kernel {
namespace {

using Dialect = CgroupController::Dialect;
using Kind = CgroupController::Kind;
using ::testing::HasSubstr;

class FakeCgroup {
 public:
  explicit FakeCgroup(std::initializer_list<std::pair<const char*, const char*>> files) {
    for (const auto& [name, text] : files) std::ofstream(dir_ / name) << text;
  }
  std::string path() const { return dir_.path(); }
  std::string text(const char* name) const { return sys::read_text(dir_ / name).value_or("(absent)"); }

 private:
  testing::TempDir dir_;
};

Result<void> apply(const FakeCgroup& cgroup, Kind kind, Dialect dialect, const Limits& limits) {
  return CgroupController::make(kind, dialect)->apply(cgroup.path(), limits);
}

CgroupUsage read(const FakeCgroup& cgroup, Kind kind, Dialect dialect) {
  CgroupUsage usage;
  CgroupController::make(kind, dialect)->read(cgroup.path(), usage);
  return usage;
}

TEST(CgroupController, MemoryOnV2ForbidsSwap) {
  FakeCgroup cgroup{{"memory.max", ""}, {"memory.swap.max", ""}, {"memory.current", "0\n"}};
  ASSERT_TRUE(apply(cgroup, Kind::Memory, Dialect::V2, {.memory_bytes = 64 << 20}));
  EXPECT_EQ(cgroup.text("memory.max"), "67108864");
  EXPECT_EQ(cgroup.text("memory.swap.max"), "0");
}

TEST(CgroupController, MemoryOnV2WithoutSwapAccounting) {
  FakeCgroup cgroup{{"memory.max", ""}};
  EXPECT_TRUE(apply(cgroup, Kind::Memory, Dialect::V2, {.memory_bytes = 64 << 20}));
  EXPECT_FALSE(accounts_swap(cgroup.path(), Dialect::V2));
  EXPECT_EQ(cgroup.text("memory.swap.max"), "(absent)");
}

TEST(CgroupController, MemoryInUseIsNotReclaimedOnV2) {
  FakeCgroup cgroup{{"memory.max", "max"}, {"memory.high", "max"}, {"memory.current", "90000000\n"}};
  const auto refused = apply(cgroup, Kind::Memory, Dialect::V2, {.memory_bytes = 64 << 20});
  EXPECT_EQ(refused.error().code, Code::Conflict);
  EXPECT_EQ(cgroup.text("memory.max"), "max");
}

TEST(CgroupController, MemoryOnV1ForbidsSwap) {
  FakeCgroup cgroup{{"memory.limit_in_bytes", ""}, {"memory.memsw.limit_in_bytes", ""}};
  ASSERT_TRUE(apply(cgroup, Kind::Memory, Dialect::V1, {.memory_bytes = 64 << 20}));
  EXPECT_EQ(cgroup.text("memory.limit_in_bytes"), "67108864");
  EXPECT_EQ(cgroup.text("memory.memsw.limit_in_bytes"), "67108864");
  EXPECT_TRUE(accounts_swap(cgroup.path(), Dialect::V1));
}

TEST(CgroupController, MemoryOnV1WithoutSwapAccountingIsReluctantToSwap) {
  FakeCgroup cgroup{{"memory.limit_in_bytes", ""}, {"memory.swappiness", "60"}};
  ASSERT_TRUE(apply(cgroup, Kind::Memory, Dialect::V1, {.memory_bytes = 64 << 20}));
  EXPECT_EQ(cgroup.text("memory.swappiness").substr(0, 1), "0");
}

TEST(CgroupController, CpuPidsAndIo) {
  FakeCgroup cgroup{{"cpu.max", ""},
                    {"cpu.cfs_quota_us", ""},
                    {"pids.max", ""},
                    {"io.max", ""},
                    {"blkio.throttle.read_bps_device", ""},
                    {"blkio.throttle.write_bps_device", ""}};
  Limits limits{.cpu_millis = 1500, .pids = 77};
  limits.io = Limits::Io{.device = makedev(8, 16), .read_bytes_per_second = 1000, .write_bytes_per_second = 2000};
  for (const Kind kind : {Kind::Cpu, Kind::Pids, Kind::Io}) {
    for (const Dialect dialect : {Dialect::V1, Dialect::V2}) {
      EXPECT_TRUE(apply(cgroup, kind, dialect, limits));
      EXPECT_TRUE(CgroupController::make(kind, dialect)->can_limit(cgroup.path()));
      EXPECT_FALSE(CgroupController::make(kind, dialect)->can_limit(cgroup.path() + "/none"));
    }
  }
  EXPECT_EQ(cgroup.text("cpu.max"), "150000 100000");
  EXPECT_EQ(cgroup.text("cpu.cfs_quota_us"), "150000");
  EXPECT_EQ(cgroup.text("pids.max"), "77");
  EXPECT_EQ(cgroup.text("io.max"), "8:16 rbps=1000 wbps=2000");
  EXPECT_EQ(cgroup.text("blkio.throttle.read_bps_device"), "8:16 1000");
  EXPECT_EQ(cgroup.text("blkio.throttle.write_bps_device"), "8:16 2000");
}

TEST(CgroupController, AbsentLimitsAreNotWritten) {
  FakeCgroup nothing{};
  for (const Kind kind : CgroupController::kKinds) {
    for (const Dialect dialect : {Dialect::V1, Dialect::V2}) EXPECT_TRUE(apply(nothing, kind, dialect, {}));
  }
}

TEST(CgroupController, AMissingFileIsNamed) {
  FakeCgroup nothing{};
  const auto failed = apply(nothing, Kind::Cpu, Dialect::V2, {.cpu_millis = 100});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::Unsupported);
  EXPECT_THAT(failed.error().message, HasSubstr("cpu limit of 100 millis"));
  EXPECT_THAT(failed.error().message, HasSubstr("cpu.max"));
}

TEST(CgroupController, UsageOnV2) {
  FakeCgroup cgroup{{"memory.current", "4096\n"},
                    {"memory.peak", "8192\n"},
                    {"memory.max", "max\n"},
                    {"memory.events", "low 0\nhigh 0\nmax 4\noom 3\noom_kill 2\noom_group_kill 0\n"},
                    {"pids.current", "5\n"},
                    {"io.stat", "8:0 rbytes=100 wbytes=20 rios=1 wios=1 dbytes=7 dios=0\n259:0 rbytes=1 wbytes=2\n"}};
  const auto memory = read(cgroup, Kind::Memory, Dialect::V2);
  EXPECT_EQ(memory.memory_bytes, 4096u);
  EXPECT_EQ(memory.memory_peak_bytes, 8192u);
  EXPECT_EQ(memory.memory_limit_bytes, std::nullopt);
  EXPECT_EQ(memory.oom_kills, 2u);
  EXPECT_EQ(read(cgroup, Kind::Pids, Dialect::V2).pids, 5u);
  const auto io = read(cgroup, Kind::Io, Dialect::V2);
  EXPECT_EQ(io.io_read_bytes, 101u);
  EXPECT_EQ(io.io_write_bytes, 22u);
}

TEST(CgroupController, UsageOnV1) {
  FakeCgroup cgroup{{"memory.usage_in_bytes", "4096\n"},
                    {"memory.max_usage_in_bytes", "8192\n"},
                    {"memory.limit_in_bytes", "9223372036854771712\n"},
                    {"memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"},
                    {"blkio.throttle.io_service_bytes_recursive",
                     "8:0 Read 100\n8:0 Write 20\n8:0 Sync 120\n8:0 Total 120\n9:0 Read 1\n9:0 Write 2\nTotal 123\n"}};
  const auto memory = read(cgroup, Kind::Memory, Dialect::V1);
  EXPECT_EQ(memory.memory_bytes, 4096u);
  EXPECT_EQ(memory.memory_peak_bytes, 8192u);
  EXPECT_EQ(memory.memory_limit_bytes, std::nullopt);
  EXPECT_EQ(memory.oom_kills, 2u);
  const auto io = read(cgroup, Kind::Io, Dialect::V1);
  EXPECT_EQ(io.io_read_bytes, 101u);
  EXPECT_EQ(io.io_write_bytes, 22u);
}

TEST(CgroupController, UsageThatCannotBeReadIsAbsent) {
  FakeCgroup cgroup{{"memory.current", "what\n"}, {"pids.current", ""}};
  EXPECT_EQ(read(cgroup, Kind::Memory, Dialect::V2).memory_bytes, std::nullopt);
  EXPECT_EQ(read(cgroup, Kind::Pids, Dialect::V2).pids, std::nullopt);
  EXPECT_EQ(read(cgroup, Kind::Io, Dialect::V2).io_read_bytes, std::nullopt);
}

}  // namespace
}  // namespace osb::kernel
