#include "sys/disk_reserve.h"

#include <gtest/gtest.h>

namespace osb::sys {
namespace {

constexpr std::uint64_t kMiB = 1 << 20, kGiB = 1 << 30;

TEST(DiskReserve, AFileSystemBelowItsReserveIsRefused) {
  struct Case {
    const char* about;
    DiskReserve reserve;
    DiskSpace space;
    bool admitted;
  };
  const DiskReserve automatic;
  const Case cases[] = {
      {"half free", automatic, {100 * kGiB, 50 * kGiB, 1000, 500}, true},
      {"a large disk keeps one GiB", automatic, {1000 * kGiB, kGiB, 1000, 500}, true},
      {"one byte less", automatic, {1000 * kGiB, kGiB - 1, 1000, 500}, false},
      {"a small disk keeps a twentieth", automatic, {100 * kMiB, 5 * kMiB, 1000, 500}, true},
      {"less than a twentieth", automatic, {100 * kMiB, 5 * kMiB - 1, 1000, 500}, false},
      {"a twentieth of the inodes", automatic, {100 * kGiB, 50 * kGiB, 1000, 50}, true},
      {"less than a twentieth of the inodes", automatic, {100 * kGiB, 50 * kGiB, 1000, 49}, false},
      {"many inodes", automatic, {100 * kGiB, 50 * kGiB, 100'000'000, 100'000}, true},
      {"no count of inodes", automatic, {100 * kGiB, 50 * kGiB, 0, 0}, true},
      {"a number is taken as it is", {10 * kGiB, 0}, {100 * kGiB, 9 * kGiB, 1000, 500}, false},
      {"inodes alone", {0, 600}, {100 * kGiB, 0, 1000, 500}, false},
      {"0 turns it off", {0, 0}, {100 * kGiB, 0, 1000, 0}, true},
  };
  for (const Case& each : cases) {
    const auto checked = check_reserve(each.reserve, each.space, "/state");
    EXPECT_EQ(checked.has_value(), each.admitted) << each.about;
    if (checked) continue;
    EXPECT_EQ(checked.error().code, Code::Exhausted);
    EXPECT_EQ(checked.error().reason, "DISK_LOW");
  }
}

TEST(DiskReserve, TheErrorNamesTheNumbersAndTheSetting) {
  const DiskReserve reserve{.reason = "X::DISK_LOW", .section = "[x]"};
  const auto bytes = check_reserve(reserve, {100 * kMiB, 2 * kMiB, 1000, 500}, "/state");
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().reason, "X::DISK_LOW");
  EXPECT_EQ(bytes.error().message,
            "no space left for new work on the file system of /state: 2 MiB are free, 5 MiB are kept free ([x] "
            "reserve_bytes); remove sandboxes, snapshots, volumes or images");
  const auto inodes = check_reserve(reserve, {100 * kMiB, 90 * kMiB, 1000, 10}, "/state");
  ASSERT_FALSE(inodes);
  EXPECT_NE(inodes.error().message.find("10 inodes are free, 50 are kept free ([x] reserve_inodes"), std::string::npos);
}

TEST(DiskReserve, TheFileSystemOfTheDirectoryIsAsked) {
  const std::int64_t huge = std::int64_t{1} << 60;
  EXPECT_FALSE(DiskReserve({.bytes = huge, .places = {{"/tmp"}}}).check());
  EXPECT_TRUE(DiskReserve({.bytes = 0, .inodes = 0, .places = {{"/tmp"}}}).check());
  EXPECT_TRUE(DiskReserve({.bytes = huge}).check());
  EXPECT_FALSE(DiskReserve({.bytes = 1, .places = {{"/tmp", std::uint64_t{1} << 62}}}).check());
  EXPECT_EQ(DiskReserve({.places = {{"/does/not/exist"}}}).check().error().code, Code::NotFound);
}

TEST(DiskReserve, IsToldInNumbersForTheDiskOfTheSandboxes) {
  const DiskReserve set{.bytes = 5, .inodes = 7, .places = {{"/does/not/exist"}, {"/tmp", 10}}};
  EXPECT_EQ(set.kept(), (DiskReserve::Kept{15, 7})) << "bytes that are shown as free and are not stay as well";
  EXPECT_EQ(DiskReserve({.bytes = 0, .inodes = 0, .places = {{"/tmp", 10}}}).kept(), DiskReserve::Kept());
  EXPECT_EQ(DiskReserve({.bytes = 5}).kept(), DiskReserve::Kept());
}

}  // namespace
}  // namespace osb::sys
