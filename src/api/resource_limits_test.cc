#include "api/resource_limits.h"

#include <gtest/gtest.h>

namespace osb::api {
namespace {

TEST(ResourceLimits, EveryKnownNameIsRead) {
  const auto all = read_resource_limits(StringMap{{"cpu", "1500m"},
                                                  {"memory", "2Gi"},
                                                  {"gpu", "all"},
                                                  {"disk", "10Gi"},
                                                  {"storage", "10240Mi"},
                                                  {"ephemeral-storage", "10Gi"},
                                                  {"pids", "100"},
                                                  {"io-read-bps", "10M"},
                                                  {"io-write-bps", "5Mi"},
                                                  {"io-read-iops", "1000"},
                                                  {"io-write-iops", "4294967295"},
                                                  {"network-receive-bps", "3M"},
                                                  {"network-send-bps", "4Ki"}});
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(*all, (ResourceLimits{.memory_bytes = std::uint64_t{2} << 30,
                                  .nano_cpus = 1'500'000'000,
                                  .gpus = -1,
                                  .disk_bytes = std::uint64_t{10} << 30,
                                  .pids = 100,
                                  .io_read_bps = 10'000'000,
                                  .io_write_bps = 5 << 20,
                                  .io_read_iops = 1000,
                                  .io_write_iops = 4294967295,
                                  .network_receive_bps = 3'000'000,
                                  .network_send_bps = 4096}));
  EXPECT_EQ(*read_resource_limits(std::nullopt), ResourceLimits());
  EXPECT_EQ(*read_resource_limits(StringMap{}), ResourceLimits());
  EXPECT_EQ(*read_resource_limits(StringMap{{"memory", "0"}}), ResourceLimits()) << "Docker's word for no limit";
}

TEST(ResourceLimits, WrongAmountsAreNamed) {
  const std::pair<StringMap, const char*> rows[] = {
      {{{"memory", "-1"}}, "/resourceLimits/memory: "},
      {{{"memory", "NaN"}}, "/resourceLimits/memory: "},
      {{{"memory", "inf"}}, "/resourceLimits/memory: "},
      {{{"memory", "99999999999999999999"}}, "/resourceLimits/memory: "},
      {{{"cpu", "-1"}}, "/resourceLimits/cpu: "},
      {{{"cpu", "1e9"}}, "/resourceLimits/cpu: "},
      {{{"cpu", ""}}, "/resourceLimits/cpu: "},
      {{{"disk", "0"}}, "/resourceLimits/disk: "},
      {{{"disk", "whatever"}}, "/resourceLimits/disk: disk: \"whatever\" is not an amount"},
      {{{"ephemeral-storage", "1.5Gi"}}, "/resourceLimits/ephemeral-storage: "},
      {{{"disk", "1Gi"}, {"storage", "2Gi"}}, "/resourceLimits/storage: disk, storage and ephemeral-storage are one"},
      {{{"pids", "0"}}, "/resourceLimits/pids: \"0\" is not a number from 8 to 4194304"},
      {{{"pids", "-1"}}, "/resourceLimits/pids: "},
      {{{"pids", "4194305"}}, "/resourceLimits/pids: "},
      {{{"pids", "99999999999999999999999"}}, "/resourceLimits/pids: "},
      {{{"io-read-bps", "0"}}, "/resourceLimits/io-read-bps: "},
      {{{"io-write-iops", "4294967296"}}, "/resourceLimits/io-write-iops: "},
      {{{"io-write-iops", "1k"}}, "/resourceLimits/io-write-iops: "},
      {{{"network-send-bps", "0"}}, "/resourceLimits/network-send-bps: "},
  };
  for (const auto& [limits, message] : rows) {
    const auto read = read_resource_limits(limits);
    ASSERT_FALSE(read) << message;
    EXPECT_EQ(read.error().code, Code::InvalidRequest) << message;
    EXPECT_TRUE(read.error().message.starts_with(message)) << read.error().message;
  }
}

TEST(ResourceLimits, UnknownNamesTellTheNearestAndAll) {
  constexpr const char* kAll =
      "Known limits: cpu, memory, gpu, disk, storage, ephemeral-storage, pids, io-read-bps, io-write-bps, "
      "io-read-iops, io-write-iops, network-receive-bps, network-send-bps";
  const auto message = [](const std::string& name) {
    return read_resource_limits(StringMap{{name, "1"}}).error().message;
  };
  const std::string begin = ": there is no such limit; ";
  EXPECT_EQ(message("CPU"), "/resourceLimits: \"CPU\"" + begin + "did you mean cpu? " + kAll);
  EXPECT_EQ(message("memroy"), "/resourceLimits: \"memroy\"" + begin + "did you mean memory? " + kAll);
  EXPECT_EQ(message("io-read-ops"), "/resourceLimits: \"io-read-ops\"" + begin + "did you mean io-read-bps? " + kAll);
  const std::string huge = message(std::string(1 << 20, 'x'));
  EXPECT_LT(huge.size(), 400u);
  EXPECT_TRUE(huge.ends_with(kAll)) << huge;
}

}  // namespace
}  // namespace osb::api
