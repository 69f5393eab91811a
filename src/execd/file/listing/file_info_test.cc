#include "execd/file/listing/file_info.h"

#include <fstream>

#include <gtest/gtest.h>

#include "base/time.h"
#include "support/temp_dir.h"

namespace osb::execd {
namespace {

struct stat file(timespec modified, timespec changed) {
  struct stat st{};
  st.st_mode = S_IFREG | 0640;
  st.st_size = 7;
  st.st_uid = 1;
  st.st_gid = 2;
  st.st_mtim = modified;
  st.st_ctim = changed;
  return st;
}

class FileInfo : public ::testing::Test {
 protected:
  FileInfo() {
    std::ofstream(dir_ / "passwd") << "o\"ne:x:1:1::/:/bin/sh\ntwo:x:2:2::/:/bin/sh\n";
    std::ofstream(dir_ / "group") << "staff:x:2:\n";
  }

  testing::TempDir dir_;
  OwnerDatabase owners_{dir_ / "passwd", dir_ / "group"};
  FileInfoWriter writer_{OwnerNames(owners_)};
};

TEST_F(FileInfo, IsWrittenAsTheContractHasIt) {
  std::string out = "x";
  writer_.append(out, "/d\\n/", "a\tb", file({1'735'787'045, 600'000'000}, {1'735'787'046, 0}));
  EXPECT_EQ(out, R"(x{"path":"/d\n/a\tb","type":"file","size":7,"modified_at":"2025-01-02T03:04:05.6Z",)"
                 R"("created_at":"2025-01-02T03:04:06Z","owner":"o\"ne","group":"staff","mode":640})");
}

TEST_F(FileInfo, ARememberedNameIsNotTakenForAnother) {
  std::string out;
  struct stat st = file({1, 0}, {1, 0});
  for (const std::uint32_t id : {1U, 2U, 77U, 1U}) {
    st.st_uid = id;
    st.st_gid = id == 77 ? 77 : 2;
    out.clear();
    writer_.append(out, "/f", st);
    const char* owner = id == 1 ? R"("owner":"o\"ne")" : id == 2 ? R"("owner":"two")" : R"("owner":"77")";
    EXPECT_NE(out.find(owner), std::string::npos) << out;
    EXPECT_NE(out.find(id == 77 ? R"("group":"77")" : R"("group":"staff")"), std::string::npos) << out;
  }
}

TEST_F(FileInfo, TimesAreThoseOfTheCommonFormatter) {
  constexpr timespec kTimes[] = {{0, 0},
                                 {0, 1},
                                 {1'735'787'045, 999'999'999},
                                 {1'735'787'045, 120'000'000},
                                 {-1, 5},
                                 {-999'999'999'999, 5},
                                 {999'999'999'999, 5},
                                 {1'735'787'045, 1'000'000'000},
                                 {1'735'787'045, 10}};
  for (const timespec& modified : kTimes) {
    for (const timespec& changed : kTimes) {
      std::string out;
      writer_.append(out, "/f", file(modified, changed));
      const std::string want = "\"modified_at\":\"" + format_timestamp_nanos(modified) + "\",\"created_at\":\"" +
                               format_timestamp_nanos(changed) + "\"";
      EXPECT_NE(out.find(want), std::string::npos) << out << "\n" << want;
    }
  }
}

TEST_F(FileInfo, TheLongestFitsItsRoom) {
  struct stat st = file({253'402'300'799, 999'999'999}, {253'402'300'798, 999'999'999});
  st.st_mode = S_IFDIR | 0777;
  st.st_size = -1;
  st.st_uid = st.st_gid = UINT32_MAX - 1;
  std::string out;
  writer_.append(out, std::string(255, '\x01'), st);
  EXPECT_NE(out.find("18446744073709551615"), std::string::npos);
  EXPECT_TRUE(out.ends_with(R"("owner":"4294967294","group":"4294967294","mode":777})")) << out;
}

}  // namespace
}  // namespace osb::execd
