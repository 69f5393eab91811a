#include "sandboxd/sandbox/pool_future.h"

#include <latch>
#include <thread>

#include <gtest/gtest.h>

namespace osb::sandboxd {
namespace {

TEST(PoolFuture, IsComputedByAnotherThreadMeanwhile) {
  std::latch begun(1);
  std::thread::id by;
  BlockingPool pool(1);
  PoolFuture<int> future(pool, [&] {
    by = std::this_thread::get_id();
    begun.count_down();
    return 7;
  });
  begun.wait();
  EXPECT_EQ(future.get(), 7);
  EXPECT_NE(by, std::this_thread::get_id());
}

TEST(PoolFuture, TheCallerComputesItWhenAllThreadsAreBusy) {
  std::latch busy(1), over(1);  // the pool's thread ends before they do
  BlockingPool pool(1);
  pool.post([&] {
    busy.count_down();
    over.wait();
  });
  busy.wait();
  std::thread::id by;
  PoolFuture<int> future(pool, [&] {
    by = std::this_thread::get_id();
    return 7;
  });
  EXPECT_EQ(future.get(), 7);
  EXPECT_EQ(by, std::this_thread::get_id());
  over.count_down();
}

}  // namespace
}  // namespace osb::sandboxd
