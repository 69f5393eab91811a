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
  const auto changes = testing::await(io, watcher->next());
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_FALSE(changes.at("a"));
}

TEST(EventFeed, SaysWhyOneCouldNotBeCreated) {
  net::io_context io;
  EventFeed feed(io.get_executor());
  const auto watcher = feed.watch();
  feed.publish("a");
  feed.publish("a", Error(Code::Internal, "no such image"));
  const auto changes = testing::await(io, watcher->next());
  ASSERT_TRUE(changes.at("a"));
  EXPECT_EQ(changes.at("a")->message, "no such image");
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
  EXPECT_TRUE(testing::await(io, watcher->next()).contains("late"));
}

}  // namespace
}  // namespace osb::sandboxd
