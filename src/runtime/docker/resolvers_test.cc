#include "runtime/docker/resolvers.h"

#include <gtest/gtest.h>

namespace osb::runtime {
namespace {

TEST(Resolvers, ThoseOnLoopbackAreOutOfReach) {
  EXPECT_EQ(
      usable_resolvers("# a comment\nsearch x\nnameserver 127.0.0.53\nnameserver ::1\nnameserver\t10.0.0.2 # near\n"
                       "nameservers 1.1.1.1\nnameserver name\nnameserver fd00::1"),
      (std::vector<std::string>{"10.0.0.2", "fd00::1"}));
  EXPECT_TRUE(usable_resolvers("").empty());
  EXPECT_EQ(usable_resolvers("nameserver 1.0.0.1\nnameserver 1.0.0.2\nnameserver 1.0.0.3\nnameserver 1.0.0.4").size(),
            3u);
}

}  // namespace
}  // namespace osb::runtime
