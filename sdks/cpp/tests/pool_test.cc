#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <type_traits>

#include "fixture.h"

namespace opensandbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The memory store, and a way to wait for what happens in it. It can be told to fail or to lose the lock.
class WatchedStore final : public PoolStateStore {
 public:
  void wait_for_idle(std::int64_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return *inner_->idle_count("p") == count; });
  }
  // Until another tick has begun, so that everything of the last one is over.
  void wait_for_tick() {
    std::unique_lock lock(mutex_);
    const int before = ticks_;
    changed_.wait(lock, [&] { return ticks_ > before; });
  }
  std::atomic<bool> lose_lock = false;
  std::atomic<bool> unavailable = false;

  Result<Taken> take_idle(const std::string& p, milliseconds ttl) override {
    if (unavailable) {
      return Failure(
          Error{.kind = ErrorKind::Pool, .code = "POOL_STATE_STORE_UNAVAILABLE", .message = "the store is away"});
    }
    return noticed([&] { return inner_->take_idle(p, ttl); });
  }
  Result<void> put_idle(const std::string& p, const std::string& id) override {
    return noticed([&] { return inner_->put_idle(p, id); });
  }
  Result<void> remove_idle(const std::string& p, const std::string& id) override {
    return noticed([&] { return inner_->remove_idle(p, id); });
  }
  Result<std::vector<std::string>> reap_idle(const std::string& p, milliseconds ttl) override {
    return noticed([&] { return inner_->reap_idle(p, ttl); });
  }
  Result<std::int64_t> idle_count(const std::string& p) override { return inner_->idle_count(p); }
  Result<std::vector<IdleEntry>> idle_entries(const std::string& p) override { return inner_->idle_entries(p); }
  Result<bool> acquire_lock(const std::string&, const std::string&, milliseconds) override {
    return noticed([&]() -> Result<bool> {
      ++ticks_;
      return true;
    });
  }
  Result<bool> renew_lock(const std::string&, const std::string&, milliseconds) override { return !lose_lock; }
  Result<void> release_lock(const std::string&, const std::string&) override {
    released = true;
    return {};
  }
  Result<std::optional<int>> max_idle(const std::string& p) override { return inner_->max_idle(p); }
  Result<void> set_max_idle(const std::string& p, int n) override { return inner_->set_max_idle(p, n); }
  Result<void> set_idle_ttl(const std::string& p, milliseconds ttl) override { return inner_->set_idle_ttl(p, ttl); }

  std::atomic<bool> released = false;

 private:
  template <typename Call>
  std::invoke_result_t<Call> noticed(Call call) {
    const std::scoped_lock lock(mutex_);
    auto result = call();
    changed_.notify_all();
    return result;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int ticks_ = 0;
  std::shared_ptr<PoolStateStore> inner_ = make_memory_store();
};

class SdkPool : public testing::Test {
 protected:
  PoolConfig config(int max_idle) {
    return {.name = "p",
            .max_idle = max_idle,
            .store = store_,
            .creation = {.image = test_image()},
            .warmup_concurrency = 2,
            .reconcile_interval = milliseconds(20)};
  }
  // Until they are really gone from the list of the running.
  void TearDown() override {
    const SandboxManager manager(client_);
    for (const auto& entry : must(store_->idle_entries("p"))) (void)manager.kill(entry.sandbox_id);
  }

  const Client client_ = must(Client::open(test_config()));
  const std::shared_ptr<WatchedStore> store_ = std::make_shared<WatchedStore>();
};

TEST_F(SdkPool, KeepsSandboxesReadyAndHandsOutTheOldest) {
  PoolConfig wanted = config(3);
  std::atomic<int> prepared = 0;
  wanted.warmup_preparer = [&](Sandbox& sandbox) -> Result<void> {
    ++prepared;
    return sandbox.files().write("/tmp/prepared", "yes");
  };
  const auto pool = must(SandboxPool::make(client_, wanted));
  const auto early = pool->acquire();
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, "POOL_NOT_RUNNING");
  must(pool->start());
  must(pool->start());
  store_->wait_for_idle(3);
  const auto idle = must(pool->snapshot_idle_entries());
  const auto sandbox = must(pool->acquire(seconds(300), AcquirePolicy::FailFast));
  EXPECT_EQ(sandbox.id(), idle[0].sandbox_id);
  EXPECT_EQ(must(sandbox.files().read("/tmp/prepared")), "yes");
  const auto left = *must(sandbox.info()).expires_at - std::chrono::system_clock::now();
  EXPECT_LE(left, seconds(300));
  must(sandbox.kill());
  store_->wait_for_idle(3);  // refilled
  EXPECT_GE(prepared, 4);
  auto snapshot = must(pool->snapshot());
  EXPECT_EQ(snapshot.state, "HEALTHY");
  EXPECT_EQ(snapshot.lifecycle_state, "RUNNING");
  EXPECT_EQ(snapshot.max_idle, 3);
  must(pool->resize(1));
  store_->wait_for_idle(1);
  must(pool->resize(0));
  store_->wait_for_idle(0);
  pool->shutdown();
  pool->shutdown();
  EXPECT_EQ(must(pool->snapshot()).state, "STOPPED");
  EXPECT_FALSE(pool->acquire());
}

TEST_F(SdkPool, MakesOneWhenNoneIsIdleUnlessToldNotTo) {
  const auto pool = must(SandboxPool::make(client_, config(0)));
  must(pool->start());
  const auto none = pool->acquire(std::nullopt, AcquirePolicy::FailFast);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::Pool);
  EXPECT_EQ(none.error().code, "POOL_EMPTY");
  const auto made = must(pool->acquire(seconds(120)));
  EXPECT_TRUE(must(made.is_healthy()));
  must(made.kill());
}

// A pool that makes and removes nothing by itself, with two idle sandboxes that are gone before one that lives.
class SdkPoolOfGone : public SdkPool {
 protected:
  void SetUp() override {
    PoolConfig wanted = config(0);
    wanted.reconcile_interval = std::chrono::hours(1);
    wanted.max_acquire_retries = 2;
    pool_ = must(SandboxPool::make(client_, wanted));
    wanted.max_acquire_retries = 3;
    patient_ = must(SandboxPool::make(client_, wanted));
    must(pool_->start());
    must(patient_->start());
    const auto living = must(Sandbox::create(client_, {.image = test_image()}));
    living_ = living.id();
    for (const std::string& id : {std::string("gone-1"), std::string("gone-2"), living_}) {
      must(store_->put_idle("p", id));
    }
  }
  std::string code(AcquirePolicy policy) {
    const auto taken = pool_->acquire(std::nullopt, policy);
    return taken ? "took " + taken->id() : taken.error().code;
  }
  std::int64_t idle() { return must(store_->idle_count("p")); }

  std::unique_ptr<SandboxPool> pool_;     // tries two
  std::unique_ptr<SandboxPool> patient_;  // tries three
  std::string living_;
};

TEST_F(SdkPoolOfGone, FailFastTriesOne) {
  EXPECT_EQ(code(AcquirePolicy::FailFast), "POOL_ACQUIRE_FAILED");
  EXPECT_EQ(idle(), 2);
  EXPECT_EQ(code(AcquirePolicy::FailFast), "POOL_ACQUIRE_FAILED");
  EXPECT_EQ(code(AcquirePolicy::FailFast), "took " + living_);
  EXPECT_EQ(code(AcquirePolicy::FailFast), "POOL_EMPTY");
  (void)SandboxManager(client_).kill(living_);
}

TEST_F(SdkPoolOfGone, DirectCreateTriesOneAndMakesOne) {
  const auto made = must(pool_->acquire());
  EXPECT_NE(made.id(), living_);
  EXPECT_EQ(idle(), 2);
  must(made.kill());
}

TEST_F(SdkPoolOfGone, RetryNextIdleTriesAsManyAsConfigured) {
  EXPECT_EQ(code(AcquirePolicy::RetryNextIdle), "POOL_ACQUIRE_FAILED");
  EXPECT_EQ(idle(), 1);
  EXPECT_EQ(code(AcquirePolicy::RetryNextIdle), "took " + living_);
  EXPECT_EQ(code(AcquirePolicy::RetryNextIdle), "POOL_EMPTY");
  (void)SandboxManager(client_).kill(living_);
}

TEST_F(SdkPoolOfGone, RetryNextIdlePassesOverThoseThatAreGone) {
  const auto taken = must(patient_->acquire(seconds(300), AcquirePolicy::RetryNextIdle));
  EXPECT_EQ(taken.id(), living_);
  EXPECT_EQ(idle(), 0);
  must(taken.kill());
}

TEST_F(SdkPoolOfGone, RetryNextIdleThenCreateMakesOneAfterThat) {
  const auto made = must(pool_->acquire(seconds(300), AcquirePolicy::RetryNextIdleThenCreate));
  EXPECT_NE(made.id(), living_);
  EXPECT_EQ(idle(), 1);
  must(made.kill());
}

TEST_F(SdkPoolOfGone, PoliciesThatMakeOneDoWithoutTheStore) {
  store_->unavailable = true;
  EXPECT_EQ(code(AcquirePolicy::FailFast), "POOL_STATE_STORE_UNAVAILABLE");
  EXPECT_EQ(code(AcquirePolicy::RetryNextIdle), "POOL_STATE_STORE_UNAVAILABLE");
  for (const auto policy : {AcquirePolicy::DirectCreate, AcquirePolicy::RetryNextIdleThenCreate}) {
    must(must(pool_->acquire(std::nullopt, policy)).kill());
  }
}

TEST_F(SdkPool, KillsWhatItMadeWhenItLosesTheLock) {
  PoolConfig wanted = config(2);
  wanted.creation.metadata = {{"suite", "lost-lock"}};
  std::mutex mutex;
  std::condition_variable changed;
  int warmed = 0;
  wanted.warmup_preparer = [&](Sandbox&) -> Result<void> {
    store_->lose_lock = true;
    const std::scoped_lock lock(mutex);
    ++warmed;
    changed.notify_all();
    return {};
  };
  const auto pool = must(SandboxPool::make(client_, wanted));
  must(pool->start());
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return warmed >= 1; });
  }
  pool->shutdown();
  const SandboxManager manager(client_);
  for (const auto& left : must(manager.list({.metadata = {{"suite", "lost-lock"}}})).items) {
    (void)manager.wait_for_state(left.id, {"Terminated"}, seconds(30));
  }
  EXPECT_TRUE(must(manager.list({.states = {"Running"}, .metadata = {{"suite", "lost-lock"}}})).items.empty());
  EXPECT_EQ(must(pool->snapshot()).idle_count, 0);
}

TEST_F(SdkPool, BacksOffWhenCreatesFail) {
  PoolConfig wanted = config(2);
  wanted.degraded_threshold = 2;
  wanted.warmup_preparer = [&, calls = std::make_shared<std::atomic<int>>(0)](Sandbox&) -> Result<void> {
    if (++*calls % 2 == 0) throw std::runtime_error("not today");
    return Failure(Error{.kind = ErrorKind::Local, .code = "MINE", .message = "not today"});
  };
  const auto pool = must(SandboxPool::make(client_, wanted));
  must(pool->start());
  store_->wait_for_tick();
  store_->wait_for_tick();
  const auto now = must(pool->snapshot());
  EXPECT_TRUE(now.backoff_active);
  EXPECT_EQ(now.state, "DEGRADED");
  EXPECT_NE(now.last_error.find("not today"), std::string::npos);
  EXPECT_GE(now.failure_count, 2);
  // Taking still works.
  const auto made = must(pool->acquire());
  must(made.kill());
  pool->shutdown();
}

TEST(SdkPoolConfig, IsChecked) {
  const auto client = must(Client::open(test_config()));
  EXPECT_FALSE(SandboxPool::make(client, {.name = "", .creation = {.image = "x"}}));
  EXPECT_FALSE(SandboxPool::make(client, {.name = "p", .max_idle = -1, .creation = {.image = "x"}}));
  EXPECT_FALSE(SandboxPool::make(client, {.name = "p"}));
  EXPECT_FALSE(SandboxPool::make(client, {.name = "p", .creation = {.image = "x"}, .max_acquire_retries = 0}));
  EXPECT_FALSE(SandboxPool::make(client, {.name = "p",
                                          .creation = {.image = "x"},
                                          .idle_timeout = seconds(10),
                                          .acquire_min_remaining_ttl = seconds(10)}));
}

}  // namespace
}  // namespace opensandbox
