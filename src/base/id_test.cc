#include "base/id.h"

#include <set>
#include <thread>

#include <gtest/gtest.h>

namespace osb {
namespace {

TEST(Id, UuidsHaveTheFormOfVersionFour) {
  for (int i = 0; i < 1000; ++i) {
    const std::string id = new_uuid();
    ASSERT_TRUE(is_uuid(id)) << id;
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef-"), std::string::npos) << id;
    EXPECT_EQ(id[14], '4') << id;
    EXPECT_NE(std::string("89ab").find(id[19]), std::string::npos) << id;
  }
}

TEST(Id, HexIdsAreThirtyTwoLowerCaseDigits) {
  const std::string id = new_hex_id();
  EXPECT_EQ(id.size(), 32u);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
}

TEST(Id, TokensAreThirtyTwoUrlSafeCharactersAndNeverRepeat) {
  std::set<std::string> all;
  for (int i = 0; i < 1000; ++i) {
    const std::string token = new_token();
    ASSERT_EQ(token.size(), 32u);
    EXPECT_EQ(token.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
              std::string::npos)
        << token;
    all.insert(token);
  }
  EXPECT_EQ(all.size(), 1000u);
}

TEST(Id, IdsNeverRepeatAcrossThreads) {
  std::set<std::string> here, there;
  std::thread other([&] {
    for (int i = 0; i < 5000; ++i) there.insert(new_uuid());
  });
  for (int i = 0; i < 5000; ++i) here.insert(new_uuid());
  other.join();
  here.merge(there);
  EXPECT_EQ(here.size(), 10000u);
}

TEST(Id, IsUuidRefusesWhatOnlyLooksAlike) {
  EXPECT_TRUE(is_uuid("01234567-89ab-cdef-0123-456789ABCDEF"));
  EXPECT_FALSE(is_uuid(""));
  EXPECT_FALSE(is_uuid("0123456789abcdef0123456789abcdef"));
  EXPECT_FALSE(is_uuid("01234567-89ab-cdef-0123-456789abcdeg"));
  EXPECT_FALSE(is_uuid("01234567-89ab-cdef-0123-456789abcdef\n"));
  EXPECT_FALSE(is_uuid("012345678-9ab-cdef-0123-456789abcdef"));
}

}  // namespace
}  // namespace osb
