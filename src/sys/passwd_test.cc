#include "sys/passwd.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::sys {
namespace {

class UserDatabaseTest : public ::testing::Test {
 protected:
  void write(const char* name, const std::string& text) { std::ofstream(dir_ / name, std::ios::trunc) << text; }
  testing::TempDir dir_;
  UserDatabase db_{dir_ / "passwd", dir_ / "group"};
};

TEST_F(UserDatabaseTest, FindsByNameAndId) {
  write("passwd", "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1001:Ann,,,:/home/ann:\n");
  write("group", "root:x:0:\nstaff:x:50:ann,bob\n");
  ASSERT_NE(db_.find_user("ann"), nullptr);
  EXPECT_EQ(db_.find_user("ann")->uid, 1000U);
  EXPECT_EQ(db_.find_user("ann")->gid, 1001U);
  EXPECT_EQ(db_.find_user("ann")->home, "/home/ann");
  EXPECT_EQ(db_.find_user("ann")->shell, "");
  EXPECT_EQ(db_.find_user(uid_t{0})->name, "root");
  EXPECT_EQ(db_.find_user("nobody"), nullptr);
  EXPECT_EQ(db_.find_user(uid_t{77}), nullptr);
  EXPECT_EQ(db_.find_group("staff"), 50U);
  EXPECT_EQ(db_.group_name(50), "staff");
  EXPECT_EQ(db_.find_group("nope"), std::nullopt);
  EXPECT_EQ(db_.group_name(51), std::nullopt);
}

TEST_F(UserDatabaseTest, GroupsOfAUserStartWithThePrimaryAndRepeatNone) {
  write("passwd", "ann:x:1000:50:::\n");
  write("group", "staff:x:50:ann\naudio:x:29:bob,ann\nvideo:x:44:annette,\nwheel:x:10:ann\naudio2:x:29:ann\n");
  EXPECT_EQ(db_.groups_of(*db_.find_user("ann")), (std::vector<gid_t>{50, 29, 10}));
}

TEST_F(UserDatabaseTest, APrivateGroupHasOneUser) {
  write("passwd", "ann:x:1000:1001:::\nbob:x:1002:1002:::\ncat:x:1003:1003:::\ndan:x:1004:1003:::\neve:x:1005:50:::\n");
  write("group", "ann:x:1001:ann\nbob:x:1002:ann\ncat:x:1003:\nstaff:x:50:\n");
  EXPECT_TRUE(db_.is_private_group(1000, 1001));
  EXPECT_FALSE(db_.is_private_group(1000, 1000)) << "no such group";
  EXPECT_FALSE(db_.is_private_group(1002, 1002)) << "another member";
  EXPECT_FALSE(db_.is_private_group(1003, 1003)) << "another user's primary group";
  EXPECT_FALSE(db_.is_private_group(1005, 50)) << "not named like the user";
  EXPECT_FALSE(db_.is_private_group(1000, 1002)) << "another user's";
  EXPECT_FALSE(db_.is_private_group(77, 1001)) << "no such user";
}

TEST_F(UserDatabaseTest, BrokenLinesAreSkipped) {
  write("passwd",
        "\n#comment:x:1:1:::\n:x:2:2:::\nshort:x:3:3\nlong:x:4:4::::extra\nneg:x:-5:5:::\nhuge:x:99999999999:5:::\n"
        "nochange:x:4294967295:5:::\ntext:x:abc:5:::\n+::::::\nok:x:6:6:::\nok:x:7:7:::second\nlast:x:8:8:::/bin/sh");
  for (const char* name : {"", "#comment", "short", "long", "neg", "huge", "nochange", "text", "+"}) {
    EXPECT_EQ(db_.find_user(name), nullptr) << name;
  }
  ASSERT_NE(db_.find_user("ok"), nullptr);
  EXPECT_EQ(db_.find_user("ok")->uid, 6U) << "the first counts";
  EXPECT_EQ(db_.find_user("last")->shell, "/bin/sh") << "without a newline";
  write("group", "a\nb:x\nc:x:1\nd:x::\ne:x:5:,,x,\n");
  EXPECT_EQ(db_.find_group("e"), 5U);
  EXPECT_EQ(db_.find_group("d"), std::nullopt);
}

TEST_F(UserDatabaseTest, ChangesAreSeen) {
  EXPECT_EQ(db_.find_user("ann"), nullptr) << "no file yet";
  write("passwd", "ann:x:1000:1000:::\n");
  ASSERT_NE(db_.find_user("ann"), nullptr);
  write("passwd", "ann:x:1000:1000:::\nbob:x:1001:1001:::\n");
  EXPECT_NE(db_.find_user("bob"), nullptr);
  // Replaced by rename, as useradd does.
  write("passwd.new", "ann:x:1000:1000:::\neve:x:1001:1001:::\n");
  std::filesystem::rename(dir_ / "passwd.new", dir_ / "passwd");
  EXPECT_NE(db_.find_user("eve"), nullptr);
  EXPECT_EQ(db_.find_user("bob"), nullptr);
  std::filesystem::remove(dir_ / "passwd");
  EXPECT_EQ(db_.find_user("eve"), nullptr);
}

TEST_F(UserDatabaseTest, AnUnchangedFileIsNotParsedAgain) {
  write("passwd", "ann:x:1000:1000:::\n");
  const User* first = db_.find_user("ann");
  EXPECT_EQ(db_.find_user("ann"), first);
  EXPECT_EQ(db_.find_user(uid_t{1000}), first);
}

TEST(UserDatabase, KnowsRootOnThisHost) {
  UserDatabase db;
  ASSERT_NE(db.find_user("root"), nullptr);
  EXPECT_EQ(db.find_user("root")->uid, 0U);
  EXPECT_EQ(db.group_name(0), "root");
}

}  // namespace
}  // namespace osb::sys
