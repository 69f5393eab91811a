#include "sandboxd/sandbox/ahead.h"

#include <latch>
#include <thread>

#include <gtest/gtest.h>

namespace osb::sandboxd {
namespace {

TEST(Ahead, IsMadeByAnotherThreadMeanwhile) {
  std::latch begun(1);
  std::thread::id by;
  BlockingPool pool(1);
  Ahead<int> ahead(pool, [&] {
    by = std::this_thread::get_id();
    begun.count_down();
    return 7;
  });
  begun.wait();
  EXPECT_EQ(ahead.get(), 7);
  EXPECT_NE(by, std::this_thread::get_id());
}

TEST(Ahead, IsMadeByWhoNeedsItWhenAllThreadsAreBusy) {
  std::latch busy(1), over(1);  // the pool's thread ends before they do
  BlockingPool pool(1);
  pool.post([&] {
    busy.count_down();
    over.wait();
  });
  busy.wait();
  std::thread::id by;
  Ahead<int> ahead(pool, [&] {
    by = std::this_thread::get_id();
    return 7;
  });
  EXPECT_EQ(ahead.get(), 7);
  EXPECT_EQ(by, std::this_thread::get_id());
  over.count_down();
}

}  // namespace
}  // namespace osb::sandboxd
