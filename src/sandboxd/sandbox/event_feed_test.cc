#include "sandboxd/sandbox/event_feed.h"

#include <gtest/gtest.h>

#include "support/await.h"

namespace osb::sandboxd {
namespace {

TEST(EventFeed, ASlowWatcherIsToldEachNameOnce) {
  net::io_context io;
  EventFeed feed(io.get_executor());
  const auto watcher = feed.watch();
  feed.watch().reset();  // one that has gone is no problem
  for (int i = 0; i < 1000; ++i) feed.publish(i % 2 == 0 ? "a" : "b");
  EXPECT_EQ(testing::await(io, watcher->next()), (std::set<std::string>{"a", "b"}));
}

TEST(EventFeed, AWatcherThatWaitsIsWoken) {
  net::io_context io;
  EventFeed feed(io.get_executor());
  const auto watcher = feed.watch();
  net::co_spawn(
      io,
      [&]() -> net::awaitable<void> {
        feed.publish("late");
        co_return;
      },
      [](std::exception_ptr) {});
  EXPECT_EQ(testing::await(io, watcher->next()), std::set<std::string>{"late"});
}

}  // namespace
}  // namespace osb::sandboxd
