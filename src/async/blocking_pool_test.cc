#include "async/blocking_pool.h"

#include <barrier>
#include <latch>
#include <signal.h>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/await.h"

namespace osb {
namespace {

using testing::await;

TEST(BlockingPool, HasNoThreadsBeforeTheFirstWork) {
  BlockingPool pool(4);
  EXPECT_EQ(pool.threads(), 0U);
  EXPECT_EQ(await(pool.run([] { return 1; })), 1);
  EXPECT_EQ(pool.threads(), 1U);
}

[[noreturn]] void work_without_threads() {
  const rlimit none = {1, 1};
  if (::setrlimit(RLIMIT_NPROC, &none) != 0 || ::setresuid(64998, 64998, 64998) != 0) ::_exit(2);
  BlockingPool pool(4);
  const bool worked = await(pool.run([] { return true; }));
  ::_exit(worked && pool.threads() == 0 ? 0 : 1);
}

// A sandbox full of processes, as a fork bomb leaves it. In a process of its own, as a user that limits apply to.
TEST(BlockingPoolDeathTest, WorksWithoutThreadsWhereNoneCanBeHad) {
  EXPECT_EXIT(work_without_threads(), ::testing::ExitedWithCode(0), "");
}

TEST(BlockingPool, RunsElsewhereAndResumesAtHome) {
  BlockingPool pool(1);
  const auto home = std::this_thread::get_id();
  await([](BlockingPool& pool, std::thread::id home) -> net::awaitable<void> {
    std::string text = "local";  // reached by reference: we sleep meanwhile
    const auto there = co_await pool.run([&] {
      text += " changed";
      return std::this_thread::get_id();
    });
    EXPECT_NE(there, home);
    EXPECT_EQ(std::this_thread::get_id(), home);
    EXPECT_EQ(text, "local changed");
    co_await pool.run([&] { text.clear(); });
    EXPECT_EQ(text, "");
  }(pool, home));
}

TEST(BlockingPool, ExceptionsComeHome) {
  BlockingPool pool(1);
  const auto home = std::this_thread::get_id();
  await([](BlockingPool& pool, std::thread::id home) -> net::awaitable<void> {
    try {
      co_await pool.run([]() -> int { throw std::runtime_error("from there"); });
      ADD_FAILURE();
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "from there");
      EXPECT_EQ(std::this_thread::get_id(), home);
    }
  }(pool, home));
  EXPECT_EQ(await(pool.run([] { return 2; })), 2);
}

TEST(BlockingPool, MoveOnlyResultsWork) {
  BlockingPool pool(1);
  EXPECT_EQ(*await(pool.run([p = std::make_unique<int>(5)]() mutable { return std::move(p); })), 5);
}

TEST(BlockingPool, ABurstUsesAllThreadsAndNotMore) {
  BlockingPool pool(3);
  net::io_context io(1);
  std::barrier together(3);  // passes only if three run at the same time
  int done = 0;
  for (int i = 0; i < 9; ++i) {
    net::co_spawn(io, pool.run([&] { together.arrive_and_wait(); }), [&](std::exception_ptr e) { done += !e; });
  }
  io.run();
  EXPECT_EQ(done, 9);
  EXPECT_EQ(pool.threads(), 3U);
}

TEST(BlockingPool, TheDestructorRunsWhatIsQueued) {
  std::atomic<int> ran = 0;
  {
    std::latch go(1);
    BlockingPool pool(1);
    pool.post([&] { go.wait(); });
    for (int i = 0; i < 5; ++i) pool.post([&] { ++ran; });
    go.count_down();
  }
  EXPECT_EQ(ran, 5);
}

TEST(BlockingPool, ItsThreadsTakeNoSignals) {
  BlockingPool pool(1);
  const bool blocked = await(pool.run([] {
    sigset_t set;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &set);
    return sigismember(&set, SIGCHLD) == 1 && sigismember(&set, SIGTERM) == 1;
  }));
  EXPECT_TRUE(blocked);
  sigset_t set;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &set);
  EXPECT_EQ(sigismember(&set, SIGTERM), 0);
}

}  // namespace
}  // namespace osb
