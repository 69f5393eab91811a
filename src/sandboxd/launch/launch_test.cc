#include "sandboxd/launch/launch.h"

#include "sandboxd/launch/launch_fixture.h"

namespace osb::sandboxd {
namespace {

TEST_F(LaunchTest, RunsTheProgramAsPidOneAndRoot) {
  EXPECT_EQ(output_of("echo $$; id -u; id -g; hostname; pwd"), "1\n0\n0\nbox\n/\n");
}

}  // namespace
}  // namespace osb::sandboxd
