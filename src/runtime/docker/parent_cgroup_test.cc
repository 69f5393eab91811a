#include "runtime/docker/parent_cgroup.h"

#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "sys/text_file.h"

namespace osb::runtime {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

const json::value kCgroupfs = json::object{{"CgroupDriver", "cgroupfs"}};

config::Ceilings totals(std::int64_t memory, std::int64_t pids) {
  config::Ceilings out;
  out.total_memory_bytes = memory;
  out.total_pids = pids;
  return out;
}

void touch(const fs::path& file) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << "";
}

TEST(ParentCgroup, AnOperatorsIsTakenAsItIs) {
  const ParentCgroup parent = prepare_parent_cgroup("mine.slice", kCgroupfs, true, totals(1 << 30, 100), "/nowhere");
  EXPECT_EQ(parent.name, "mine.slice");
  EXPECT_EQ(parent.missing, "");
}

TEST(ParentCgroup, WhereTheServerCannotMakeOneItSaysWhy) {
  const struct {
    json::value info;
    bool local;
    config::Ceilings ceilings;
    const char* why;
  } rows[] = {{kCgroupfs, false, totals(1 << 30, 100), "the engine is on another machine; make a cgroup"},
              {json::object{{"CgroupDriver", "systemd"}}, true, totals(1 << 30, 100), "systemd makes"},
              {kCgroupfs, true, totals(0, 0), "[docker] total_* are 0"}};
  for (const auto& row : rows) {
    const ParentCgroup parent = prepare_parent_cgroup("", row.info, row.local, row.ceilings, "/nowhere");
    EXPECT_EQ(parent.name, "");
    EXPECT_TRUE(parent.missing.starts_with(row.why)) << parent.missing;
  }
}

TEST(ParentCgroup, ARootServerMakesOneWithLimits) {
  if (::geteuid() != 0) {
    EXPECT_TRUE(prepare_parent_cgroup("", kCgroupfs, true, totals(1, 1)).missing.starts_with("the server is not root"));
    return;
  }
  const testing::TempDir v1, v2;
  const std::string own = kOwnParent;
  for (const char* file : {"/memory.limit_in_bytes", "/pids.max"}) {
    touch(v1.path().string() + (std::string(file).starts_with("/m") ? "/memory" : "/pids") + own + file);
  }
  const std::string huge_v1 = v1.path().string() + "/hugetlb" + own + "/hugetlb.2MB.limit_in_bytes";
  const std::string huge_v2 = v2.path().string() + own + "/hugetlb.2MB.max";
  touch(huge_v1);
  touch(huge_v2);
  EXPECT_EQ(prepare_parent_cgroup("", kCgroupfs, true, totals(1 << 30, 100), v1.path()).name, own);
  EXPECT_EQ(*sys::read_text(huge_v1), "0");
  EXPECT_EQ(*sys::read_text(v1.path().string() + "/memory" + own + "/memory.limit_in_bytes"), "1073741824");
  EXPECT_EQ(*sys::read_text(v1.path().string() + "/pids" + own + "/pids.max"), "100");
  for (const std::string& file : {std::string("/cgroup.controllers"), std::string("/cgroup.subtree_control"),
                                  own + "/memory.max", own + "/pids.max"}) {
    touch(v2.path().string() + file);
  }
  EXPECT_EQ(prepare_parent_cgroup("", kCgroupfs, true, totals(1 << 30, 0), v2.path()).name, own);
  EXPECT_EQ(*sys::read_text(v2.path().string() + own + "/memory.max"), "1073741824");
  EXPECT_EQ(*sys::read_text(v2.path().string() + own + "/pids.max"), "max");
  EXPECT_EQ(*sys::read_text(huge_v2), "0");
  EXPECT_EQ(*sys::read_text(v2.path().string() + "/cgroup.subtree_control"), "+memory +pids");
}

}  // namespace
}  // namespace osb::runtime
