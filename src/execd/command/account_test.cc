#include "execd/command/account.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::execd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(FindAccount, ReadsPrimaryAndSupplementaryGroups) {
  const testing::TempDir dir;
  const AccountFiles files{(dir / "passwd").string(), (dir / "group").string()};
  std::ofstream(files.passwd) << "root:x:0:0:root:/root:/bin/sh\n"
                                 "broken line\n"
                                 "bad:x:abc:1::/:\n"
                                 "ann:x:1000:1001:Ann:/home/ann:/bin/bash\n"
                                 "twin:x:1000:1002::/:";
  std::ofstream(files.group) << "root:x:0:\n"
                                "ann:x:1001:ann\n"
                                "wheel:x:10:root,ann\n"
                                "annex:x:11:anna,joann\n"
                                "last:x:12:ann";
  const auto ann = find_account("ann", files);
  ASSERT_TRUE(ann);
  EXPECT_EQ(ann->uid, 1000U);
  EXPECT_EQ(ann->gid, 1001U);
  EXPECT_THAT(ann->groups, ElementsAre(10U, 12U));
  EXPECT_EQ(find_account(1000, files)->gid, 1001U) << "the first entry counts";
  EXPECT_THAT(find_account("root", files)->groups, ElementsAre(10U));
  EXPECT_THAT(find_account("twin", files)->groups, IsEmpty());
  EXPECT_FALSE(find_account("bad", files));
  EXPECT_FALSE(find_account("nobody", files));
  EXPECT_FALSE(find_account(77, files));
  EXPECT_FALSE(find_account("ann", {"/nonexistent", "/nonexistent"}));
}

}  // namespace
}  // namespace osb::execd
