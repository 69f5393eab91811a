#include "execd/daemon/idle_tidy.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <gtest/gtest.h>

namespace osb::execd {
namespace {

using std::chrono::milliseconds;

class IdleTidyTest : public ::testing::Test {
 protected:
  net::io_context io_{1};
  int tidied_ = 0;
  IdleTidy tidy_{io_.get_executor(), milliseconds(5), [this] { ++tidied_; }};
};

TEST_F(IdleTidyTest, NothingHappensWithoutActivity) {
  io_.run();
  EXPECT_EQ(tidied_, 0);
}

TEST_F(IdleTidyTest, FollowsOnceAfterTheLastActivityAndThenTheLoopIsLeftAlone) {
  for (int i = 0; i < 1000; ++i) tidy_.note_activity();
  EXPECT_EQ(tidied_, 0) << "not at once";
  io_.run();  // returns: no timer is left
  EXPECT_EQ(tidied_, 1);
  tidy_.note_activity();
  io_.restart();
  io_.run();
  EXPECT_EQ(tidied_, 2);
}

TEST_F(IdleTidyTest, IsPutOffWhileRequestsCome) {
  tidy_.note_activity();
  tidy_.note_activity();  // since the timer was set: its first end finds activity
  io_.run_one();
  EXPECT_EQ(tidied_, 0);
  io_.run();
  EXPECT_EQ(tidied_, 1);
}

TEST(GiveMemoryBack, LeavesTheProgramRunning) {
  give_memory_back();
  const std::string still(1000, 'x');
  EXPECT_EQ(still.size(), 1000U);
}

}  // namespace
}  // namespace osb::execd
