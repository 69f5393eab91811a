#include "sandboxd/volume/check_volumes.h"

#include <gtest/gtest.h>

namespace osb::sandboxd {
namespace {

using Kind = VolumeKind;

std::string reason_of(const Volume& spec) {
  const auto checked = check_volumes(std::span(&spec, 1));
  return checked ? "" : checked.error().reason;
}

TEST(CheckVolumes, TargetsAreNormalPathsOutsideTheSandboxsOwn) {
  struct {
    const char* why;
    std::string target;
    bool good;
  } rows[] = {
      {"plain", "/data", true},
      {"nested", "/data/a b/c", true},
      {"looks like /proc", "/process", true},
      {"looks like /dev", "/development/dev", true},
      {"dots in a name", "/a..b/...", true},
      {"empty", "", false},
      {"relative", "data", false},
      {"the root", "/", false},
      {"twice a slash", "/a//b", false},
      {"trailing slash", "/a/", false},
      {"a dot", "/a/./b", false},
      {"leads up", "/a/../proc", false},
      {"ends up", "/a/..", false},
      {"proc", "/proc", false},
      {"below proc", "/proc/1/root", false},
      {"sys", "/sys/fs/cgroup", false},
      {"dev", "/dev/shm", false},
      {"a NUL byte", std::string("/a\0b", 4), false},
      {"too long", "/" + std::string(5000, 'x'), false},
  };
  for (const auto& row : rows) {
    const Volume spec{.kind = Kind::Named, .source = "v", .target = row.target};
    EXPECT_EQ(reason_of(spec), row.good ? "" : "VOLUME::INVALID_MOUNT_PATH") << row.why;
  }
}

TEST(CheckVolumes, OneTargetOneVolume) {
  const Volume specs[] = {{.kind = Kind::Named, .source = "a", .target = "/x"},
                          {.kind = Kind::Named, .source = "b", .target = "/x"}};
  const auto checked = check_volumes(specs);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Code::InvalidRequest);
  EXPECT_EQ(checked.error().reason, "VOLUME::INVALID_MOUNT_PATH");
}

TEST(CheckVolumes, SubPathsAreRelativeAndGoDown) {
  for (const char* good : {"", "a", "a/b", "a//b/", "./a", "..a", "a../b"}) {
    EXPECT_EQ(reason_of({.kind = Kind::Named, .source = "v", .sub_path = good, .target = "/x"}), "") << good;
  }
  for (const char* bad : {"/a", "..", "../a", "a/..", "a/../b", "/"}) {
    EXPECT_EQ(reason_of({.kind = Kind::Named, .source = "v", .sub_path = bad, .target = "/x"}),
              "VOLUME::INVALID_SUB_PATH")
        << bad;
  }
  EXPECT_EQ(reason_of({.kind = Kind::Tmpfs, .sub_path = "a", .target = "/x"}), "VOLUME::INVALID_SUB_PATH");
}

TEST(CheckVolumes, NamesAreThoseOfTheContract) {
  for (const std::string& good :
       {std::string("a"), std::string("0"), std::string("my-volume-1"), std::string(253, 'a')}) {
    EXPECT_TRUE(check_volume_name(good)) << good;
  }
  for (const std::string& bad :
       {std::string(), std::string("-a"), std::string("a-"), std::string("A"), std::string("a_b"), std::string("."),
        std::string(".."), std::string("a/b"), std::string("a\n"), std::string(254, 'a')}) {
    const auto checked = check_volume_name(bad);
    ASSERT_FALSE(checked) << bad;
    EXPECT_EQ(checked.error().reason, "VOLUME::INVALID_PVC_NAME");
  }
}

TEST(CheckVolumes, HostPathsAreNormal) {
  EXPECT_EQ(reason_of({.kind = Kind::Host, .source = "/data/x", .target = "/x"}), "");
  for (const char* bad : {"", "data", "/data/", "/data//x", "/data/../etc", "/data/..", "/data/./x"}) {
    EXPECT_EQ(reason_of({.kind = Kind::Host, .source = bad, .target = "/x"}), "VOLUME::INVALID_HOST_PATH") << bad;
  }
}

TEST(CheckVolumes, APrefixEndsAtASlash) {
  EXPECT_TRUE(is_at_or_below("/data", "/data"));
  EXPECT_TRUE(is_at_or_below("/data/x", "/data"));
  EXPECT_TRUE(is_at_or_below("/anything", "/"));
  EXPECT_FALSE(is_at_or_below("/database", "/data"));
  EXPECT_FALSE(is_at_or_below("/dat", "/data"));
  EXPECT_FALSE(is_at_or_below("/", "/data"));
}

}  // namespace
}  // namespace osb::sandboxd
