#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <opensandbox/pool.h>
#include <thread>

#include "base/deadline.h"
#include "base/id.h"
#include "client/loop.h"

namespace opensandbox {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kFirstBackoff{30};
constexpr std::chrono::hours kLongestBackoff{24};
constexpr std::chrono::seconds kWorkerGrace{5};

enum class Phase { NotStarted, Starting, Running, Draining, Stopped };

std::string name_of(Phase state) {
  switch (state) {
    case Phase::NotStarted:
      return "NOT_STARTED";
    case Phase::Starting:
      return "STARTING";
    case Phase::Running:
      return "RUNNING";
    case Phase::Draining:
      return "DRAINING";
    case Phase::Stopped:
      return "STOPPED";
  }
  return "";
}

bool retries(AcquirePolicy policy) {
  return policy == AcquirePolicy::RetryNextIdle || policy == AcquirePolicy::RetryNextIdleThenCreate;
}

bool creates(AcquirePolicy policy) {
  return policy == AcquirePolicy::DirectCreate || policy == AcquirePolicy::RetryNextIdleThenCreate;
}

Result<PoolConfig> completed(PoolConfig config) {
  const auto bad = [](const std::string& what) { return invalid_argument("pool: " + what); };
  if (config.name.empty()) return bad("name must not be empty");
  if (config.max_idle < 0) return bad("max_idle must not be negative");
  if (config.warmup_concurrency < 0) return bad("warmup_concurrency must not be negative");
  if (config.degraded_threshold <= 0) return bad("degraded_threshold must be positive");
  if (config.max_acquire_retries < 1) return bad("max_acquire_retries must be at least 1");
  if (config.idle_timeout.count() <= 0 || config.reconcile_interval.count() <= 0 ||
      config.primary_lock_ttl.count() <= 0 || config.drain_timeout.count() < 0) {
    return bad("times must be positive");
  }
  const CreateOptions& creation = config.creation;
  if (!creation.image.empty() + !creation.snapshot_id.empty() + !creation.template_id.empty() != 1) {
    return bad("creation needs exactly one of image, snapshot_id and template_id");
  }
  if (!config.acquire_min_remaining_ttl) {
    config.acquire_min_remaining_ttl = std::min<milliseconds>(std::chrono::seconds(60), config.idle_timeout / 2);
  }
  if (*config.acquire_min_remaining_ttl >= config.idle_timeout) {
    return bad("acquire_min_remaining_ttl must stay below idle_timeout");
  }
  if (config.warmup_concurrency == 0) config.warmup_concurrency = std::max(1, (config.max_idle + 4) / 5);
  if (config.owner_id.empty()) config.owner_id = "pool-owner-" + osb::new_uuid();
  if (!config.store) config.store = make_memory_store();
  // An unused sandbox ends by itself.
  config.creation.timeout = std::chrono::ceil<std::chrono::seconds>(config.idle_timeout);
  return config;
}

}  // namespace

// The ticker is a thread of its own; it runs tick(). Everything else happens on the callers' threads.
struct SandboxPool::Impl {
  Impl(Client c, PoolConfig cfg)
      : client(std::move(c)), config(std::move(cfg)), manager(client), target(config.max_idle) {}

  const Client client;
  const PoolConfig config;
  const SandboxManager manager;

  mutable std::mutex mutex;
  std::condition_variable changed;
  Phase lifecycle = Phase::NotStarted;
  int target;
  int failures = 0;
  std::optional<osb::Deadline> backoff;
  std::string last_error;
  int in_flight = 0;
  bool stop = false;    // tells the ticker
  bool nudged = false;  // a tick is due now
  bool ticking = false;
  std::thread ticker;

  PoolStateStore& store() const { return *config.store; }

  // One more operation that a graceful shutdown waits for.
  struct Operation {
    explicit Operation(Impl& owner) : pool(owner) {
      const std::scoped_lock lock(pool.mutex);
      ++pool.in_flight;
    }
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;
    ~Operation() {
      const std::scoped_lock lock(pool.mutex);
      --pool.in_flight;
      pool.changed.notify_all();
    }
    Impl& pool;
  };

  bool stopping() const {
    const std::scoped_lock lock(mutex);
    return stop;
  }

  // Without waiting: a sandbox that cannot be killed ends at its deadline.
  void kill_in_background(std::string id) const {
    auto core = client.core();
    core->run_in_background(async::SandboxManager(*core->client).kill(std::move(id)));
  }

  void kill_all(const std::vector<std::string>& ids) const {
    for (const std::string& id : ids) (void)manager.kill(id);
  }

  // --- the ticker

  void run_ticker() {
    std::unique_lock lock(mutex);
    nudged = target > 0;
    while (!stop) {
      changed.wait_for(lock, config.reconcile_interval, [&] { return stop || nudged; });
      if (stop) break;
      nudged = false;
      ticking = true;
      lock.unlock();
      tick();
      lock.lock();
      ticking = false;
      changed.notify_all();
    }
    lock.unlock();
    (void)store().release_lock(config.name, config.owner_id);
  }

  bool hold_lock() const {
    const auto held = store().renew_lock(config.name, config.owner_id, config.primary_lock_ttl);
    return held && *held;
  }

  void note(const Error& error) {
    const std::scoped_lock lock(mutex);
    last_error = error.to_string();
  }

  void tick() {
    const auto primary = store().acquire_lock(config.name, config.owner_id, config.primary_lock_ttl);
    if (!primary) return note(primary.error());
    if (!*primary) return;
    const auto reaped = store().reap_idle(config.name, *config.acquire_min_remaining_ttl);
    if (!reaped) return note(reaped.error());
    kill_all(*reaped);
    const auto shared = store().max_idle(config.name);
    const auto count = store().idle_count(config.name);
    if (!shared) return note(shared.error());
    if (!count) return note(count.error());
    int wanted = 0;
    bool waiting = false;
    {
      const std::scoped_lock lock(mutex);
      if (*shared) target = **shared;
      wanted = target;
      waiting = backoff && !backoff->passed();
    }
    if (*count > wanted) return shrink(*count - wanted);
    if (*count < wanted && !waiting) grow(static_cast<int>(wanted - *count));
  }

  void shrink(std::int64_t surplus) {
    for (std::int64_t i = 0; i < std::min<std::int64_t>(surplus, config.warmup_concurrency) && !stopping(); ++i) {
      if (!hold_lock()) return;
      auto taken = store().take_idle(config.name, milliseconds(0));
      if (!taken) return note(taken.error());
      kill_all(taken->discarded);
      if (!taken->sandbox_id) return;
      (void)manager.kill(*taken->sandbox_id);
    }
  }

  void grow(int missing) {
    if (!hold_lock()) return;
    const int count = std::min(missing, config.warmup_concurrency);
    std::vector<Result<Sandbox>> made;
    {
      std::mutex made_mutex;
      std::vector<std::jthread> workers;
      for (int i = 0; i < count; ++i) {
        workers.emplace_back([&] {
          auto one = warm_up();
          const std::scoped_lock lock(made_mutex);
          made.push_back(std::move(one));
        });
      }
    }
    std::vector<std::string> fresh;
    for (const auto& one : made) {
      if (one) {
        fresh.push_back(one->id());
      } else {
        failed(one.error());
      }
    }
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      // Another process holds the lock now, or the store is gone: a sandbox that is not stored has no owner.
      Result<void> put = cancelled("the pool stops or lost its lock");
      if (!stopping() && hold_lock()) put = store().put_idle(config.name, fresh[i]);
      if (!put) {
        note(put.error());
        return kill_all({fresh.begin() + static_cast<std::ptrdiff_t>(i), fresh.end()});
      }
      const std::scoped_lock lock(mutex);
      failures = 0;
      backoff.reset();
    }
  }

  // An exception of the caller's functions must not end the program from the pool's thread.
  Result<Sandbox> warm_up() {
    try {
      return make_idle();
    } catch (const std::exception& error) {
      return local_error(std::string("a function of the pool's owner threw: ") + error.what());
    } catch (...) {
      return local_error("a function of the pool's owner threw");
    }
  }

  Result<Sandbox> make_idle() {
    CreateOptions options = config.creation;
    options.ready = config.warmup_ready;
    auto made = Sandbox::create(client, options, config.warmup_health_check);
    if (!made) return made;
    if (config.warmup_preparer) {
      Result<void> prepared;
      try {
        prepared = config.warmup_preparer(*made);
      } catch (...) {
        (void)made->kill();
        throw;
      }
      if (!prepared) return undone(*made, std::move(prepared.error()));
    }
    if (auto renewed = made->renew(config.idle_timeout); !renewed) return undone(*made, std::move(renewed.error()));
    return made;
  }

  static Failure undone(const Sandbox& sandbox, Error error) {
    (void)sandbox.kill();
    return Failure(std::move(error));
  }

  void failed(const Error& error) {
    const std::scoped_lock lock(mutex);
    last_error = error.to_string();
    if (++failures < config.degraded_threshold) return;
    const int doublings = std::min(failures - config.degraded_threshold, 20);
    const auto pause = std::min<std::chrono::seconds>(kFirstBackoff * (1 << doublings), kLongestBackoff);
    backoff.emplace(pause);
  }

  // --- acquire

  // Nothing: no idle sandbox could be used; `unusable` says why the last one could not, if one was tried.
  Result<std::optional<Sandbox>> take(std::optional<milliseconds> timeout, int candidates,
                                      std::optional<Error>& unusable) {
    for (int tried = 0; tried < candidates; ++tried) {
      auto taken = store().take_idle(config.name, *config.acquire_min_remaining_ttl);
      if (!taken) return Failure(std::move(taken.error()));
      for (std::string& id : taken->discarded) kill_in_background(std::move(id));
      if (!taken->sandbox_id) break;
      const std::string& id = *taken->sandbox_id;
      auto sandbox =
          Sandbox::connect(client, id, {.ready = config.acquire_ready, .health_check = config.acquire_health_check});
      if (sandbox) {
        Result<Timestamp> renewed;
        if (timeout) renewed = sandbox->renew(*timeout);
        if (renewed) return std::move(*sandbox);
        kill_in_background(id);
        return Failure(std::move(renewed.error()));
      }
      unusable = std::move(sandbox.error());
      (void)store().remove_idle(config.name, id);
      kill_in_background(id);
      if (unusable->status == 401 || unusable->status == 403) return Failure(std::move(*unusable));
    }
    return std::nullopt;
  }

  Result<Sandbox> make_one(std::optional<milliseconds> timeout) {
    CreateOptions options = config.creation;
    options.ready = config.acquire_ready;
    auto made = Sandbox::create(client, options, config.acquire_health_check);
    if (!made || !timeout) return made;
    if (auto renewed = made->renew(*timeout); !renewed) return undone(*made, std::move(renewed.error()));
    return made;
  }
};

SandboxPool::SandboxPool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

SandboxPool::~SandboxPool() {
  shutdown(false);
  if (impl_->ticker.joinable()) impl_->ticker.join();
}

Result<std::unique_ptr<SandboxPool>> SandboxPool::make(Client client, PoolConfig config) {
  auto full = completed(std::move(config));
  if (!full) return Failure(std::move(full.error()));
  return std::unique_ptr<SandboxPool>(new SandboxPool(std::make_unique<Impl>(std::move(client), std::move(*full))));
}

Result<void> SandboxPool::start() {
  Impl& pool = *impl_;
  int target = 0;
  {
    const std::scoped_lock lock(pool.mutex);
    target = pool.target;
    if (pool.lifecycle == Phase::Starting || pool.lifecycle == Phase::Running) return {};
    if (pool.lifecycle == Phase::Draining) return pool_error("POOL_NOT_RUNNING", "the pool is shutting down");
    pool.lifecycle = Phase::Starting;
  }
  if (pool.ticker.joinable()) pool.ticker.join();  // of the last run
  auto written = pool.store().set_idle_ttl(pool.config.name, pool.config.idle_timeout);
  if (written) written = pool.store().set_max_idle(pool.config.name, target);
  const std::scoped_lock lock(pool.mutex);
  if (!written) {
    pool.lifecycle = Phase::Stopped;
    return written;
  }
  pool.stop = false;
  pool.lifecycle = Phase::Running;
  pool.ticker = std::thread([&pool] { pool.run_ticker(); });
  return {};
}

void SandboxPool::shutdown(bool graceful) {
  Impl& pool = *impl_;
  std::unique_lock lock(pool.mutex);
  if (pool.lifecycle != Phase::Running) return;
  pool.stop = true;
  pool.lifecycle = Phase::Draining;
  pool.changed.notify_all();
  if (graceful) {
    pool.changed.wait_for(lock, kWorkerGrace, [&] { return !pool.ticking; });
    pool.changed.wait_for(lock, pool.config.drain_timeout, [&] { return pool.in_flight == 0; });
  }
  pool.lifecycle = Phase::Stopped;
}

Result<Sandbox> SandboxPool::acquire(std::optional<milliseconds> timeout, AcquirePolicy policy) {
  Impl& pool = *impl_;
  const Impl::Operation operation(pool);
  {
    const std::scoped_lock lock(pool.mutex);
    if (pool.lifecycle != Phase::Running) {
      return pool_error("POOL_NOT_RUNNING", "pool " + pool.config.name + " is " + name_of(pool.lifecycle));
    }
  }
  const PoolConfig& config = pool.config;
  std::optional<Error> unusable;
  auto taken = pool.take(timeout, retries(policy) ? config.max_acquire_retries : 1, unusable);
  if (taken && *taken) return std::move(**taken);
  if (!taken && (!creates(policy) || taken.error().code != "POOL_STATE_STORE_UNAVAILABLE")) {
    return Failure(std::move(taken.error()));
  }
  if (creates(policy)) return pool.make_one(timeout);
  if (!unusable) return pool_error("POOL_EMPTY", "pool " + config.name + " has no idle sandbox");
  return pool_error("POOL_ACQUIRE_FAILED",
                    "pool " + config.name + ": an idle sandbox could not be used: " + unusable->to_string());
}

Result<void> SandboxPool::resize(int max_idle) {
  if (max_idle < 0) return invalid_argument("pool: max_idle must not be negative");
  if (auto written = impl_->store().set_max_idle(impl_->config.name, max_idle); !written) return written;
  const std::scoped_lock lock(impl_->mutex);
  impl_->target = max_idle;
  impl_->nudged = true;
  impl_->changed.notify_all();
  return {};
}

Result<int> SandboxPool::release_all_idle() {
  const Impl::Operation operation(*impl_);
  for (int count = 0;;) {
    auto taken = impl_->store().take_idle(impl_->config.name, milliseconds(0));
    if (!taken) return Failure(std::move(taken.error()));
    impl_->kill_all(taken->discarded);
    count += static_cast<int>(taken->discarded.size());
    if (!taken->sandbox_id) return count;
    (void)impl_->manager.kill(*taken->sandbox_id);
    ++count;
  }
}

Result<PoolSnapshot> SandboxPool::snapshot() const {
  const auto count = impl_->store().idle_count(impl_->config.name);
  if (!count) return Failure(count.error());
  const std::scoped_lock lock(impl_->mutex);
  PoolSnapshot out;
  out.lifecycle_state = name_of(impl_->lifecycle);
  if (impl_->lifecycle == Phase::Draining) {
    out.state = "DRAINING";
  } else if (impl_->lifecycle != Phase::Running && impl_->lifecycle != Phase::Starting) {
    out.state = "STOPPED";
  } else {
    out.state = impl_->failures >= impl_->config.degraded_threshold ? "DEGRADED" : "HEALTHY";
  }
  out.idle_count = *count;
  out.max_idle = impl_->target;
  out.failure_count = impl_->failures;
  out.backoff_active = impl_->backoff && !impl_->backoff->passed();
  out.last_error = impl_->last_error;
  out.in_flight_operations = impl_->in_flight;
  return out;
}

Result<std::vector<PoolStateStore::IdleEntry>> SandboxPool::snapshot_idle_entries() const {
  return impl_->store().idle_entries(impl_->config.name);
}

}  // namespace opensandbox
