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
  EXPECT_EQ(host_config({}), R"({"PidsLimit":4096})");
  EXPECT_EQ(host_config({{"pids", "99"}}), R"({"PidsLimit":99})");
  EXPECT_EQ(host_config({{"disk", "1Gi"}}), R"({"PidsLimit":4096,"StorageOpt":{"size":"1073741824"}})");
  EXPECT_EQ(
      host_config({{"io-read-bps", "1"}, {"io-write-bps", "2"}, {"io-read-iops", "3"}, {"io-write-iops", "4"}}),
      R"({"PidsLimit":4096,"BlkioDeviceReadBps":[{"Path":"/dev/sda","Rate":1}],)"
      R"("BlkioDeviceWriteBps":[{"Path":"/dev/sda","Rate":2}],"BlkioDeviceReadIOps":[{"Path":"/dev/sda","Rate":3}],)"
      R"("BlkioDeviceWriteIOps":[{"Path":"/dev/sda","Rate":4}]})");
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
            "/resourceLimits/pids: 4097 are asked for, at most 4096 are allowed ([docker] pids_limit)");
}

TEST(ContainerLimits, TheStorageDriverDecidesAboutSizes) {
  const auto why = [](const char* info) { return limit_facts(json::parse(info), false, false).no_disk_limit; };
  EXPECT_EQ(why(R"({"Driver":"overlay2","DriverStatus":[["Backing Filesystem","xfs"],["Supports d_type","true"]]})"),
            "");
  EXPECT_EQ(why(R"({"Driver":"btrfs"})"), "");
  EXPECT_TRUE(why(R"({"Driver":"overlay2","DriverStatus":[["Backing Filesystem","extfs"]]})")
                  .starts_with("the engine's storage driver overlay2 on extfs has no limit of size"));
  EXPECT_NE(why(R"({"Driver":"overlayfs","DriverStatus":[["driver-type","io.containerd.snapshotter.v1"]]})"), "");
}

TEST(ContainerLimits, TheEnginesFactsAreRead) {
  const auto read =
      limit_facts(json::parse(R"({"MemTotal":1024,"NCPU":2,"MemoryLimit":true,"CpuCfsQuota":false,"PidsLimit":true})"),
                  false, false);
  EXPECT_EQ(read.memory_bytes, 1024u);
  EXPECT_EQ(read.cpus, 2u);
  EXPECT_EQ(read.not_enforced, std::set<std::string>{"cpu"});
  EXPECT_TRUE(read.no_io_limit.starts_with("the engine is on another machine")) << read.no_io_limit;
  const auto rootless = limit_facts(json::parse(R"({"CgroupVersion":"1","PidsLimit":true})"), true, true);
  EXPECT_EQ(rootless.not_enforced, (std::set<std::string>{"cpu", "memory", "pids"}));
}

}  // namespace
}  // namespace osb::runtime
