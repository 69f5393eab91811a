#include <deque>
#include <mutex>
#include <opensandbox/pool.h>
#include <unordered_map>

#include "base/time.h"

namespace opensandbox {
namespace {

using std::chrono::milliseconds;

class MemoryStore final : public PoolStateStore {
 public:
  Result<Taken> take_idle(const std::string& name, milliseconds min_remaining_ttl) override {
    const std::scoped_lock lock(mutex_);
    Pool& pool = pools_[name];
    Taken out;
    while (!pool.idle.empty() && !out.sandbox_id) {
      IdleEntry entry = std::move(pool.idle.front());
      pool.idle.pop_front();
      const auto left = entry.expires_at - osb::timestamp_now();
      if (left <= milliseconds(0)) continue;
      if (left <= min_remaining_ttl) {
        out.discarded.push_back(std::move(entry.sandbox_id));
      } else {
        out.sandbox_id = std::move(entry.sandbox_id);
      }
    }
    return out;
  }

  Result<void> put_idle(const std::string& name, const std::string& id) override {
    const std::scoped_lock lock(mutex_);
    Pool& pool = pools_[name];
    std::erase_if(pool.idle,
                  [&](const IdleEntry& e) { return e.sandbox_id == id && e.expires_at <= osb::timestamp_now(); });
    for (const IdleEntry& entry : pool.idle) {
      if (entry.sandbox_id == id) return {};
    }
    pool.idle.push_back({.sandbox_id = id, .expires_at = osb::timestamp_now() + pool.ttl});
    return {};
  }

  Result<void> remove_idle(const std::string& name, const std::string& id) override {
    const std::scoped_lock lock(mutex_);
    std::erase_if(pools_[name].idle, [&](const IdleEntry& entry) { return entry.sandbox_id == id; });
    return {};
  }

  Result<std::vector<std::string>> reap_idle(const std::string& name, milliseconds min_remaining_ttl) override {
    const std::scoped_lock lock(mutex_);
    std::vector<std::string> alive;
    const auto at = osb::timestamp_now();
    std::erase_if(pools_[name].idle, [&](const IdleEntry& entry) {
      const auto left = entry.expires_at - at;
      if (left > min_remaining_ttl) return false;
      if (left > milliseconds(0)) alive.push_back(entry.sandbox_id);
      return true;
    });
    return alive;
  }

  Result<std::int64_t> idle_count(const std::string& name) override {
    const std::scoped_lock lock(mutex_);
    return static_cast<std::int64_t>(pools_[name].idle.size());
  }

  Result<std::vector<IdleEntry>> idle_entries(const std::string& name) override {
    const std::scoped_lock lock(mutex_);
    const Pool& pool = pools_[name];
    return std::vector<IdleEntry>(pool.idle.begin(), pool.idle.end());
  }

  Result<bool> acquire_lock(const std::string&, const std::string&, milliseconds) override { return true; }
  Result<bool> renew_lock(const std::string&, const std::string&, milliseconds) override { return true; }
  Result<void> release_lock(const std::string&, const std::string&) override { return {}; }
  Result<std::optional<int>> max_idle(const std::string&) override { return std::optional<int>(); }
  Result<void> set_max_idle(const std::string&, int) override { return {}; }

  Result<void> set_idle_ttl(const std::string& name, milliseconds ttl) override {
    const std::scoped_lock lock(mutex_);
    pools_[name].ttl = ttl;
    return {};
  }

 private:
  struct Pool {
    std::deque<IdleEntry> idle;  // the oldest first
    milliseconds ttl = std::chrono::hours(24);
  };

  std::mutex mutex_;
  std::unordered_map<std::string, Pool> pools_;
};

}  // namespace

std::shared_ptr<PoolStateStore> make_memory_store() { return std::make_shared<MemoryStore>(); }

}  // namespace opensandbox
