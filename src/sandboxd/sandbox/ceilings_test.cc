#include "sandboxd/sandbox/ceilings.h"

#include <gtest/gtest.h>

namespace osb::sandboxd {
namespace {

TEST(Ceilings, RequestsGetTheDefaultsAndStayBelowTheMaxima) {
  Ceilings ceilings;
  ceilings.max_memory_bytes = std::int64_t{36} << 30;
  ceilings.default_memory_bytes = std::int64_t{18} << 30;
  ceilings.max_cpu_millis = 8000;
  ceilings.default_cpu_millis = 4000;
  ceilings.max_pids = 12288;
  ceilings.max_disk_bytes = std::int64_t{100} << 30;
  api::native::Limits none;
  ASSERT_TRUE(apply_ceilings(none, ceilings));
  EXPECT_EQ(none.memory_bytes, std::uint64_t{18} << 30);
  EXPECT_EQ(none.cpu_millis, 4000u);
  EXPECT_FALSE(none.pids || none.disk_bytes);
  api::native::Limits most;
  most.memory_bytes = std::uint64_t{36} << 30;
  most.cpu_millis = 8000;
  most.pids = 12288;
  most.disk_bytes = std::uint64_t{100} << 30;
  EXPECT_TRUE(apply_ceilings(most, ceilings));
  const auto refusal = [&](auto change) {
    api::native::Limits wanted;
    change(wanted);
    return apply_ceilings(wanted, ceilings).error().message;
  };
  EXPECT_EQ(refusal([](auto& l) { l.memory_bytes = (std::uint64_t{36} << 30) + (1 << 30); }),
            "/resourceLimits/memory: 37 GiB is asked for, at most 36 GiB is allowed ([sandbox] max_memory_bytes of "
            "sandboxd)");
  EXPECT_EQ(refusal([](auto& l) { l.cpu_millis = 8001; }),
            "/resourceLimits/cpu: 8001m is asked for, at most 8000m is allowed ([sandbox] max_cpu_millis of sandboxd)");
  EXPECT_EQ(refusal([](auto& l) { l.pids = 12289; }),
            "/resourceLimits/pids: 12289 is asked for, at most 12288 is allowed ([sandbox] max_pids of sandboxd)");
  EXPECT_TRUE(refusal([](auto& l) { l.disk_bytes = UINT64_MAX; }).starts_with("/resourceLimits/disk: "));
}

TEST(Ceilings, RatesOfIoHaveDefaultsAndMaxima) {
  Ceilings ceilings{0, 0, 0, 0, 0, 0, 0, 0, 0};
  ceilings.default_io.read_bps = 10 << 20;
  ceilings.max_io = {.read_bps = 20 << 20, .write_bps = 5 << 20, .write_iops = 100};
  api::native::Limits silent;
  ASSERT_TRUE(apply_ceilings(silent, ceilings));
  EXPECT_EQ(silent.io_read_bps, 10u << 20);
  EXPECT_EQ(silent.io_write_bps, 5u << 20) << "a maximum holds for requests that name no rate";
  EXPECT_EQ(silent.io_write_iops, 100u);
  EXPECT_FALSE(silent.io_read_iops);
  api::native::Limits both;
  both.io_bytes_per_second = 6 << 20;
  EXPECT_EQ(apply_ceilings(both, ceilings).error().message,
            "/resourceLimits/io-write-bps: 6 MiB is asked for, at most 5 MiB is allowed ([sandbox] max_io_write_bps of "
            "sandboxd)");
  api::native::Limits often;
  often.io_write_iops = 101;
  EXPECT_EQ(apply_ceilings(often, ceilings).error().message,
            "/resourceLimits/io-write-iops: 101 is asked for, at most 100 is allowed ([sandbox] max_io_write_iops of "
            "sandboxd)");
  api::native::Limits fewer;
  fewer.io_write_iops = 7;
  ASSERT_TRUE(apply_ceilings(fewer, ceilings));
  EXPECT_EQ(fewer.io_write_iops, 7u);
}

TEST(Ceilings, WithoutAnyNothingIsRefusedOrGiven) {
  api::native::Limits wanted;
  ASSERT_TRUE(apply_ceilings(wanted, {0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(wanted, api::native::Limits());
  wanted.memory_bytes = wanted.cpu_millis = wanted.disk_bytes = UINT64_MAX;
  EXPECT_TRUE(apply_ceilings(wanted, {0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(parent_limits({0, 0, 0, 0, 0, 0, 0, 0, 0}), kernel::Limits());
  Ceilings some;
  some.total_memory_bytes = 1 << 30;
  some.total_pids = 100;
  EXPECT_EQ(parent_limits(some), (kernel::Limits{.memory_bytes = 1 << 30, .pids = 100}));
}

TEST(MachineSizeTest, IsMeasured) {
  const config::MachineSize here = measure_machine("/no/such/directory");
  EXPECT_GT(here.memory_bytes, 64u << 20);
  EXPECT_GE(here.cpus, 1u);
  EXPECT_GT(here.pids, 256u);
  EXPECT_GT(here.disk_bytes, 1u << 20);
}

}  // namespace
}  // namespace osb::sandboxd
