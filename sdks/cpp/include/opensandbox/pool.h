#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "opensandbox/sandbox.h"

namespace opensandbox {

// Keeps the idle sandboxes of a pool, and the lock of the process that may refill it. One store may serve many pools in
// many processes; all calls may come from any thread. A store that cannot answer returns ErrorKind::Pool with code
// POOL_STATE_STORE_UNAVAILABLE.
class PoolStateStore {
 public:
  struct IdleEntry {
    std::string sandbox_id = {};
    Timestamp expires_at{};
  };
  struct Taken {
    std::optional<std::string> sandbox_id = {};  // the oldest that lives long enough; nothing: there is none
    std::vector<std::string> discarded = {};     // alive but too short-lived, now out of the store: to be killed
  };

  virtual ~PoolStateStore() = default;

  virtual Result<Taken> take_idle(const std::string& pool, std::chrono::milliseconds min_remaining_ttl) = 0;
  // Expires after the pool's idle TTL. A live duplicate is ignored.
  virtual Result<void> put_idle(const std::string& pool, const std::string& sandbox_id) = 0;
  virtual Result<void> remove_idle(const std::string& pool, const std::string& sandbox_id) = 0;
  // Removes expired entries and returns the ones that live on but for less than `min_remaining_ttl`.
  virtual Result<std::vector<std::string>> reap_idle(const std::string& pool,
                                                     std::chrono::milliseconds min_remaining_ttl) = 0;
  virtual Result<std::int64_t> idle_count(const std::string& pool) = 0;
  virtual Result<std::vector<IdleEntry>> idle_entries(const std::string& pool) = 0;

  // The lock for the refill: true when `owner` holds it afterwards.
  virtual Result<bool> acquire_lock(const std::string& pool, const std::string& owner,
                                    std::chrono::milliseconds ttl) = 0;
  virtual Result<bool> renew_lock(const std::string& pool, const std::string& owner, std::chrono::milliseconds ttl) = 0;
  virtual Result<void> release_lock(const std::string& pool, const std::string& owner) = 0;

  // Shared by all nodes; nothing where the store shares none.
  virtual Result<std::optional<int>> max_idle(const std::string& pool) = 0;
  virtual Result<void> set_max_idle(const std::string& pool, int max_idle) = 0;
  virtual Result<void> set_idle_ttl(const std::string& pool, std::chrono::milliseconds ttl) = 0;
};

// One process, no sharing: the lock is always granted.
std::shared_ptr<PoolStateStore> make_memory_store();

struct PoolConfig {
  std::string name = {};
  int max_idle = 0;
  std::shared_ptr<PoolStateStore> store = {};  // null: a memory store of its own
  CreateOptions creation = {};                 // timeout and ready are the pool's

  std::string owner_id = {};   // "": pool-owner-<uuid>
  int warmup_concurrency = 0;  // 0: max(1, ceil(0.2 * max_idle))
  std::chrono::milliseconds primary_lock_ttl{60'000};
  std::chrono::milliseconds reconcile_interval{30'000};
  int degraded_threshold = 3;
  ReadyOptions acquire_ready = {};
  HealthCheck acquire_health_check = {};
  ReadyOptions warmup_ready = {};
  HealthCheck warmup_health_check = {};
  std::function<Result<void>(Sandbox&)> warmup_preparer = {};  // runs in each new sandbox; called on a pool's thread
  std::chrono::milliseconds idle_timeout{std::chrono::hours(24)};
  std::chrono::milliseconds drain_timeout{30'000};
  std::optional<std::chrono::milliseconds> acquire_min_remaining_ttl = {};  // nothing: min(60 s, idle_timeout / 2)
  int max_acquire_retries = 3;  // idle sandboxes that one acquire of a RetryNextIdle policy tries, at least 1
};

// How many idle sandboxes an acquire tries when they turn out to be unusable, and whether it makes one after that.
enum class AcquirePolicy {
  DirectCreate,             // tries one, then makes one
  FailFast,                 // tries one
  RetryNextIdle,            // tries max_acquire_retries of them
  RetryNextIdleThenCreate,  // tries max_acquire_retries of them, then makes one
};

struct PoolSnapshot {
  std::string state = {};            // HEALTHY, DEGRADED, DRAINING, STOPPED
  std::string lifecycle_state = {};  // NOT_STARTED, STARTING, RUNNING, DRAINING, STOPPED
  std::int64_t idle_count = 0;
  int max_idle = 0;
  int failure_count = 0;
  bool backoff_active = false;
  std::string last_error = {};
  int in_flight_operations = 0;
};

// Keeps sandboxes ready. There is no give-back: the caller that acquired a sandbox kills it. Thread-safe.
class SandboxPool {
 public:
  static Result<std::unique_ptr<SandboxPool>> make(Client client, PoolConfig config);
  // Shuts down without grace if that was not done.
  ~SandboxPool();
  SandboxPool(const SandboxPool&) = delete;
  SandboxPool& operator=(const SandboxPool&) = delete;

  // Both may be called more than once; a stopped pool can be started again. Idle sandboxes outlive the pool.
  Result<void> start();
  void shutdown(bool graceful = true);

  // An idle one, renewed to `timeout` if given. A policy that makes none fails with POOL_EMPTY when none is idle and
  // with POOL_ACQUIRE_FAILED when those it tried were unusable; one that makes one does so without the store as well.
  // A refused key and a failed renewal end the call: another sandbox would meet the same.
  Result<Sandbox> acquire(std::optional<std::chrono::milliseconds> timeout = std::nullopt,
                          AcquirePolicy policy = AcquirePolicy::DirectCreate);
  Result<void> resize(int max_idle);
  // Kills every idle one; how many there were.
  Result<int> release_all_idle();
  Result<PoolSnapshot> snapshot() const;
  Result<std::vector<PoolStateStore::IdleEntry>> snapshot_idle_entries() const;

 private:
  struct Impl;
  explicit SandboxPool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace opensandbox
