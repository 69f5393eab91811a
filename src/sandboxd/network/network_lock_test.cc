#include "sandboxd/network/network_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::sandboxd {
namespace {

using ::testing::HasSubstr;

TEST(NetworkLock, TwoDaemonsOfOneNetworkNamespaceNeedDifferentNames) {
  testing::TempDir directory;
  const NetworkConfig config;
  const auto first = lock_network(config, directory.path());
  ASSERT_TRUE(first) << first.error().message;
  NetworkConfig second = config;
  second.table += "x";
  const auto refused = lock_network(second, directory.path());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Conflict);
  EXPECT_THAT(refused.error().message, HasSubstr("network.interface_prefix"));
  second.interface_prefix += "x";
  EXPECT_TRUE(lock_network(second, directory.path()));
  second.table = config.table;
  EXPECT_FALSE(lock_network(second, directory.path()));
}

}  // namespace
}  // namespace osb::sandboxd
