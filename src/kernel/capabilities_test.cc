#include "kernel/capabilities.h"

#include <linux/capability.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::kernel {
namespace {

using ::testing::ElementsAre;

constexpr CapabilitySet bit(int number) { return CapabilitySet{1} << number; }

TEST(Capabilities, NamesInAnySpelling) {
  for (const char* name : {"CAP_NET_ADMIN", "cap_net_admin", "net_admin", "NET_ADMIN"}) {
    EXPECT_EQ(capability_number(name), CAP_NET_ADMIN) << name;
  }
  EXPECT_EQ(capability_number("CAP_CHOWN"), 0);
  EXPECT_EQ(capability_number("checkpoint_restore"), CAP_CHECKPOINT_RESTORE);
  EXPECT_EQ(capability_number(""), std::nullopt);
  EXPECT_EQ(capability_number("CAP_"), std::nullopt);
  EXPECT_EQ(capability_number("CAP_CAP_CHOWN"), std::nullopt);
  for (int number = 0; number <= CAP_LAST_CAP; ++number) EXPECT_EQ(capability_number(capability_name(number)), number);
  EXPECT_EQ(capability_name(60), "CAP_60");
}

TEST(Capabilities, NamesOfASet) {
  EXPECT_THAT(capability_names(bit(CAP_KILL) | bit(CAP_BPF)), ElementsAre("CAP_KILL", "CAP_BPF"));
}

TEST(Capabilities, OfAProcessThatIsNotThere) { EXPECT_EQ(capabilities_of(0x7fff'ffff).error().code, Code::NotFound); }

}  // namespace
}  // namespace osb::kernel
