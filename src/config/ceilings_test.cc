#include "config/ceilings.h"

#include <gtest/gtest.h>

namespace osb::config {
namespace {

constexpr std::int64_t kMiB = 1 << 20, kGiB = 1 << 30;

MachineSize machine(std::int64_t memory, std::uint64_t cpus = 8, std::uint64_t pids = 32768) {
  return {.memory_bytes = static_cast<std::uint64_t>(memory),
          .cpus = cpus,
          .pids = pids,
          .disk_bytes = std::uint64_t{100} << 30,
          .network_slots = 65533};
}

Ceilings derived(const MachineSize& size, Ceilings settings = {}) {
  return derive_ceilings(settings, size, "sandbox").value();
}

TEST(Ceilings, AreDerivedFromTheMachine) {
  const Ceilings large = derived(machine(40 * kGiB));
  EXPECT_EQ(large.total_memory_bytes, 36 * kGiB);
  EXPECT_EQ(large.max_memory_bytes, 36 * kGiB);
  EXPECT_EQ(large.default_memory_bytes, 18 * kGiB);
  EXPECT_EQ(large.max_cpu_millis, 8000);
  EXPECT_EQ(large.default_cpu_millis, 4000);
  EXPECT_EQ(large.total_pids, 24576);
  EXPECT_EQ(large.max_pids, 12288);
  EXPECT_EQ(large.max_disk_bytes, 100 * kGiB);
  EXPECT_EQ(large.max_sandboxes, 24576 / 4) << "pids are what this machine has least of";
  EXPECT_EQ(derived(machine(400 * kGiB)).total_memory_bytes, 392 * kGiB);
  EXPECT_EQ(derived(machine(40 * kGiB, 8, 4 << 20)).max_sandboxes, 9216) << "36 GiB, 4 MiB each";
}

TEST(Ceilings, SmallMachinesServeTheSdks) {
  const Ceilings small = derived(machine(kGiB, 1));
  EXPECT_EQ(small.total_memory_bytes, 768 * kMiB);
  EXPECT_EQ(small.max_memory_bytes, 2 * kGiB);
  EXPECT_EQ(small.default_memory_bytes, 384 * kMiB);
  EXPECT_EQ(small.default_cpu_millis, 1000);
  EXPECT_EQ(small.max_cpu_millis, 1000);
  EXPECT_EQ(derived(machine(2 * kGiB, 2)).default_cpu_millis, 2000);
  EXPECT_EQ(derived(machine(256 * kMiB)).total_memory_bytes, 128 * kMiB);
}

TEST(Ceilings, SettingsWin) {
  Ceilings settings;
  settings.total_memory_bytes = 4 * kGiB;
  settings.default_cpu_millis = 500;
  settings.max_sandboxes = 7;
  const Ceilings set = derived(machine(40 * kGiB), settings);
  EXPECT_EQ(set.total_memory_bytes, 4 * kGiB);
  EXPECT_EQ(set.max_memory_bytes, 4 * kGiB);
  EXPECT_EQ(set.default_memory_bytes, 2 * kGiB);
  EXPECT_EQ(set.default_cpu_millis, 500);
  EXPECT_EQ(set.max_sandboxes, 7);
  const Ceilings none = derived(machine(40 * kGiB), {0, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(none, (Ceilings{0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(Ceilings, ADefaultAboveItsMaximumIsRefused) {
  Ceilings settings;
  settings.default_memory_bytes = 4 * kGiB;
  settings.max_memory_bytes = 2 * kGiB;
  const auto refused = derive_ceilings(settings, machine(40 * kGiB), "sandbox");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "[sandbox] default_memory_bytes = 4294967296 is above max_memory_bytes = 2147483648");
  settings.default_memory_bytes = 0;
  EXPECT_EQ(derive_ceilings(settings, machine(40 * kGiB), "sandbox").error().message,
            "[sandbox] default_memory_bytes = 0 (no limit) is above max_memory_bytes = 2147483648");
  Ceilings rates;
  rates.default_io.write_iops = 8;
  rates.max_io.write_iops = 7;
  EXPECT_EQ(derive_ceilings(rates, machine(40 * kGiB), "sandbox").error().message,
            "[sandbox] default_io_write_iops = 8 is above max_io_write_iops = 7");
}

}  // namespace
}  // namespace osb::config
