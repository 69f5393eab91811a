#include "runtime/docker/container_limits.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

namespace osb::runtime {
namespace {

namespace json = boost::json;

EngineFacts facts() {
  EngineFacts out;
  out.limits.io_device = "/dev/sda";
  return out;
}

std::string host_config(const api::StringMap& wanted) {
  json::object host;
  add_limits(host, container_limits(wanted, DockerOptions(), facts()).value());
  return json::serialize(host);
}

TEST(ContainerLimits, EachLimitHasItsPlaceInTheBody) {
  EXPECT_EQ(host_config({}), R"({"PidsLimit":4096,"OomScoreAdj":500,"Ulimits":[{"Name":"core","Soft":1,"Hard":1}]})");
  EXPECT_EQ(host_config({{"pids", "99"}}),
            R"({"PidsLimit":99,"OomScoreAdj":500,"Ulimits":[{"Name":"core","Soft":1,"Hard":1}]})");
  EXPECT_EQ(
      host_config({{"disk", "1Gi"}}),
      R"({"PidsLimit":4096,"StorageOpt":{"size":"1073741824"},"OomScoreAdj":500,"Ulimits":[{"Name":"core","Soft":1,"Hard":1}]})");
  EXPECT_EQ(
      host_config({{"io-read-bps", "1"}, {"io-write-bps", "2"}, {"io-read-iops", "3"}, {"io-write-iops", "4"}}),
      R"({"PidsLimit":4096,"BlkioDeviceReadBps":[{"Path":"/dev/sda","Rate":1}],)"
      R"("BlkioDeviceWriteBps":[{"Path":"/dev/sda","Rate":2}],"BlkioDeviceReadIOps":[{"Path":"/dev/sda","Rate":3}],)"
      R"("BlkioDeviceWriteIOps":[{"Path":"/dev/sda","Rate":4}],"OomScoreAdj":500,)"
      R"("Ulimits":[{"Name":"core","Soft":1,"Hard":1}]})");
}

TEST(ContainerLimits, RatesOfIoHaveDefaultsAndMaxima) {
  EngineFacts limited = facts();
  limited.limits.ceilings.max_io.write_bps = 5 << 20;
  EXPECT_EQ(container_limits({}, DockerOptions(), limited)->amounts.io_write_bps, 5u << 20);
  EXPECT_EQ(container_limits(api::StringMap{{"io-write-bps", "6Mi"}}, DockerOptions(), limited).error().message,
            "/resourceLimits/io-write-bps: 6 MiB is asked for, at most 5 MiB is allowed ([docker] max_io_write_bps)");
}

TEST(ContainerLimits, PodmanIsGivenNoUlimits) {
  EngineFacts podman = facts();
  podman.podman = true;
  json::object host;
  add_limits(host, container_limits({}, DockerOptions(), podman).value());
  EXPECT_EQ(json::serialize(host), R"({"PidsLimit":4096,"OomScoreAdj":500})");
}

TEST(ContainerLimits, LimitsThatTheEngineCannotEnforceAreRefused) {
  EngineFacts weak = facts();
  weak.limits.not_enforced = {"memory", "pids"};
  weak.limits.no_disk_limit = "no size";
  weak.limits.no_io_limit = "no io";
  const std::pair<api::StringMap, const char*> rows[] = {
      {{{"memory", "64Mi"}}, "/resourceLimits/memory: the container engine cannot enforce it"},
      {{{"pids", "64"}}, "/resourceLimits/pids: the container engine cannot enforce it"},
      {{{"storage", "64Gi"}}, "/resourceLimits/disk: no size"},
      {{{"io-read-iops", "64"}}, "/resourceLimits/io-read-iops: no io"},
      {{{"network-send-bps", "1M"}}, "/resourceLimits/network-send-bps: container engines have no limit of bandwidth"},
      {{{"swap", "1Gi"}}, "/resourceLimits: \"swap\": there is no such limit"},
  };
  for (const auto& [wanted, message] : rows) {
    const auto limits = container_limits(wanted, DockerOptions(), weak);
    ASSERT_FALSE(limits) << message;
    EXPECT_EQ(limits.error().code, Code::InvalidRequest);
    EXPECT_TRUE(limits.error().message.starts_with(message)) << limits.error().message;
  }
  EXPECT_TRUE(container_limits(api::StringMap{{"cpu", "1"}}, DockerOptions(), weak));
  EXPECT_EQ(container_limits(api::StringMap{{"pids", "4097"}}, DockerOptions(), facts()).error().message,
            "/resourceLimits/pids: 4097 is asked for, at most 4096 is allowed ([docker] pids_limit)");
}

TEST(ContainerLimits, TheStorageDriverDecidesAboutSizes) {
  const auto why = [](const char* info) {
    return limit_facts(json::parse(info), DockerOptions(), false, false)->no_disk_limit;
  };
  EXPECT_EQ(why(R"({"Driver":"overlay2","DriverStatus":[["Backing Filesystem","xfs"],["Supports d_type","true"]]})"),
            "");
  EXPECT_EQ(why(R"({"Driver":"btrfs"})"), "");
  EXPECT_TRUE(why(R"({"Driver":"overlay2","DriverStatus":[["Backing Filesystem","extfs"]]})")
                  .starts_with("the engine's storage driver overlay2 on extfs has no limit of size"));
  EXPECT_NE(why(R"({"Driver":"overlayfs","DriverStatus":[["driver-type","io.containerd.snapshotter.v1"]]})"), "");
}

TEST(ContainerLimits, TheEnginesFactsAreRead) {
  const auto read = limit_facts(
      json::parse(R"({"MemTotal":42949672960,"NCPU":8,"MemoryLimit":true,"CpuCfsQuota":false,"PidsLimit":true})"),
      DockerOptions(), false, false);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->ceilings.max_memory_bytes, std::int64_t{36} << 30);
  EXPECT_EQ(read->ceilings.max_cpu_millis, 8000);
  EXPECT_EQ(read->ceilings.max_sandboxes, 36 * 32) << "32 MiB each";
  EXPECT_EQ(read->not_enforced, std::set<std::string>{"cpu"});
  EXPECT_TRUE(read->no_io_limit.starts_with("the engine is on another machine")) << read->no_io_limit;
  const auto rootless =
      limit_facts(json::parse(R"({"CgroupVersion":"1","PidsLimit":true})"), DockerOptions(), true, true);
  ASSERT_TRUE(rootless);
  EXPECT_EQ(rootless->not_enforced, (std::set<std::string>{"cpu", "memory", "pids"}));
}

TEST(ContainerLimits, RequestsGetTheDefaultsAndStayBelowTheMaxima) {
  EngineFacts engine = facts();
  engine.limits.ceilings.default_memory_bytes = 1 << 30;
  engine.limits.ceilings.max_memory_bytes = std::int64_t{4} << 30;
  engine.limits.ceilings.default_cpu_millis = 500;
  engine.limits.ceilings.max_cpu_millis = 2000;
  DockerOptions options;
  engine.limits.cgroup_parent = "/limited";
  const auto none = container_limits(api::StringMap(), options, engine);
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_EQ(none->amounts.memory_bytes, 1u << 30);
  EXPECT_EQ(none->amounts.nano_cpus, 500'000'000);
  json::object host;
  add_limits(host, *none);
  EXPECT_EQ(host.at("CgroupParent"), "/limited");
  EXPECT_EQ(container_limits(api::StringMap{{"memory", "5Gi"}}, options, engine).error().message,
            "/resourceLimits/memory: 5 GiB is asked for, at most 4 GiB is allowed ([docker] max_memory_bytes)");
  const auto cpu = container_limits(api::StringMap{{"cpu", "2.0001"}}, options, engine);
  ASSERT_FALSE(cpu);
  EXPECT_EQ(cpu.error().message,
            "/resourceLimits/cpu: 2001m is asked for, at most 2000m is allowed ([docker] max_cpu_millis)");
  EXPECT_EQ(cpu.error().reason, "SANDBOX::INVALID_PARAMETER");
  EXPECT_TRUE(container_limits(api::StringMap{{"cpu", "2"}, {"memory", "4Gi"}}, options, engine));
  engine.limits.not_enforced = {"memory", "cpu"};
  const auto weak = container_limits(api::StringMap(), options, engine);
  EXPECT_FALSE(weak->amounts.memory_bytes || weak->amounts.nano_cpus) << "an engine that cannot is not asked";
}

}  // namespace
}  // namespace osb::runtime
