#include "controller/queue/work_queue.h"

#include <vector>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/task_group.h"
#include "kubernetes/testing/test_time.h"
#include "support/await.h"

namespace osb::controller {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

class WorkQueueTest : public ::testing::Test {
 protected:
  WorkQueueTest()
      : time(io.get_executor()), gate(io.get_executor()), seen_more(io.get_executor()), tasks(io.get_executor()) {
    gate.set();
    WorkQueue::Options options;
    options.name = "test";
    options.workers = 2;
    options.clock = &time.clock();
    options.sleep = time.sleep();
    queue = std::make_unique<WorkQueue>(io.get_executor(), options, [this](Key key) { return look(key); });
    tasks.spawn("queue", queue->run());
  }
  ~WorkQueueTest() override { osb::testing::await(io, tasks.close()); }

  net::awaitable<Result<WorkQueue::Again>> look(Key key) {
    ++at_once[key];
    EXPECT_EQ(at_once[key], 1) << "a key in two hands";
    seen.push_back(key.name);
    seen_more.notify_all();
    co_await gate.wait();
    --at_once[key];
    if (throws) throw std::runtime_error("bug");
    if (failures > 0) {
      --failures;
      co_return fail(Code::Unavailable, "not now");
    }
    co_return std::exchange(again, std::nullopt);
  }
  void wait_seen(std::size_t n) {
    osb::testing::await(io, seen_more.wait_until([&] { return seen.size() >= n; }));
    osb::testing::await(io, gate.is_set() ? queue->wait_idle() : seen_more.wait_until([] { return true; }));
  }

  net::io_context io{1};
  kubernetes::testing::TestTime time;
  Event gate;
  Notifier seen_more;
  std::vector<std::string> seen;
  std::map<Key, int> at_once;
  int failures = 0;
  bool throws = false;
  WorkQueue::Again again;
  TaskGroup tasks;
  std::unique_ptr<WorkQueue> queue;
};

TEST_F(WorkQueueTest, AKeyThatWaitsIsLookedAtOnce) {
  for (int i = 0; i < 3; ++i) queue->add({"", "a"});
  queue->add({"", "b"});
  wait_seen(2);
  EXPECT_THAT(seen, ElementsAre("a", "b"));
}

TEST_F(WorkQueueTest, AKeyAddedDuringItsWorkComesAgainAfterwards) {
  gate.clear();
  queue->add({"", "a"});
  wait_seen(1);
  queue->add({"", "a"});
  queue->add({"", "a"});
  gate.set();
  wait_seen(2);
  EXPECT_THAT(seen, ElementsAre("a", "a"));
}

TEST_F(WorkQueueTest, AFailureComesAgainAfterAPause) {
  failures = 2;
  queue->add({"", "a"});
  wait_seen(1);
  time.advance(100ms);
  wait_seen(2);
  time.advance(200ms);
  wait_seen(3);
  EXPECT_EQ(queue->failed(), 2u);
  time.advance(1h);
  queue->add({"", "b"});
  wait_seen(4);
  EXPECT_EQ(seen.back(), "b") << "a success is the end of it";
}

TEST_F(WorkQueueTest, AnExceptionIsAFailureOfItsKeyOnly) {
  throws = true;
  queue->add({"", "a"});
  wait_seen(1);
  throws = false;
  queue->add({"", "b"});
  wait_seen(2);
  time.advance(100ms);
  wait_seen(3);
  EXPECT_THAT(seen, ElementsAre("a", "b", "a"));
}

TEST_F(WorkQueueTest, ALookCanAskForAnotherOneLater) {
  again = 5s;
  queue->add({"", "a"});
  wait_seen(1);
  osb::testing::await(io, time.wait_alarm(5s));
  queue->add_after({"", "a"}, 10s);
  queue->add_after({"", "a"}, 2s);
  osb::testing::await(io, time.wait_alarm(2s));
  time.advance(2s);
  wait_seen(2);
  time.advance(1h);
  queue->add({"", "b"});
  wait_seen(3);
  EXPECT_THAT(seen, ElementsAre("a", "a", "b")) << "the earliest moment is the only one";
}

}  // namespace
}  // namespace osb::controller
