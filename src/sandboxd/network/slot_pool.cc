#include "sandboxd/network/slot_pool.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"
#include "sandboxd/network/firewall.h"
#include "sandboxd/network/slot_factory.h"

namespace osb::sandboxd {
namespace {

constexpr unsigned kKeepFactor = 4;  // so many times ready_slots are kept when many come back at once
constexpr std::size_t kCollectAt = 64;
constexpr std::chrono::seconds kTearDownTimeout{5};
constexpr std::chrono::seconds kRefillPatience{1};  // nothing else is done meanwhile

struct Returned {
  Slot slot;
  bool recyclable = false;
};

}  // namespace

// Where an index is: never used (>= next_ and not found at start), ready, taken, returned, draining (dropped; its
// interface may still exist), or free (known to be gone). Returned ones with traffic are dirty in between.
class SlotPool::Impl {
 public:
  Impl(const NetworkConfig& config, Firewall& firewall, SlotFactory factory)
      : config_(config), firewall_(firewall), factory_(std::move(factory)) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    work_.notify_all();
    if (worker_.joinable()) worker_.join();
    for (auto* slots : {&ready_, &ready_none_}) {
      for (Slot& slot : *slots) drop(std::move(slot));
    }
    for (Slot& slot : dirty_) drop(std::move(slot));
    for (Returned& returned : returned_) drop(std::move(returned.slot));
  }

  Result<Slot> adopt(unsigned index, NetworkMode mode, pid_t pid, SlotHolder holder) {
    {
      const std::lock_guard lock(mutex_);
      if (taken_.contains(index))
        return fail(Code::Conflict, fmt::format("adopt network slot {}: another sandbox has it", index));
    }
    auto slot = factory_.find(index, mode, pid, holder);
    if (!slot) return slot;
    if (mode == NetworkMode::Bridge) {
      if (const auto done = firewall_.admit(index); !done) return Failure(done.error());
    }
    const std::lock_guard lock(mutex_);
    taken_.insert(index);
    found_.insert(index);
    return slot;
  }

  Result<void> start(std::string no_bridge) {
    const auto existing = factory_.existing();
    if (!existing) return Failure(existing.error());
    const std::lock_guard lock(mutex_);
    no_bridge_ = std::move(no_bridge);
    for (const unsigned index : *existing) {
      if (index < config_.capacity() && !found_.contains(index)) draining_.insert(index);
    }
    found_.insert(draining_.begin(), draining_.end());
    // An earlier daemon may have ended before the connections of its removed sandboxes were forgotten.
    if (no_bridge_.empty()) {
      if (const auto done = factory_.forget_other_connections(taken_); !done) return done;
    }
    worker_ = std::thread([this] { run(); });
    return {};
  }

  Result<Slot> take(NetworkMode mode) {
    std::unique_lock lock(mutex_);
    if (mode == NetworkMode::Bridge && !no_bridge_.empty()) {
      return fail(Code::Unsupported, "network mode bridge: not on this host, " + no_bridge_);
    }
    for (;;) {
      std::deque<Slot>& ready = mode == NetworkMode::Bridge ? ready_ : ready_none_;
      if (!ready.empty()) {
        Slot slot = std::move(ready.front());
        ready.pop_front();
        taken_.insert(slot.index);
        refill_failed_ = false;
        lock.unlock();
        work_.notify_one();
        return slot;
      }
      if (const auto index = unused_index()) {
        taken_.insert(*index);
        lock.unlock();
        return make_taken(*index, mode);
      }
      // Nothing is free at this moment. Something will be, if slots wait for recycling or the kernel tears some down.
      if (!returned_.empty() || busy_ || dirty_count() > 0) {
        forget_now_ = true;
        work_.notify_one();
        changed_.wait(lock);
      } else if (!draining_.empty()) {
        const std::vector<unsigned> draining(draining_.begin(), draining_.end());
        lock.unlock();
        const auto ended = factory_.wait_for_end(draining, kTearDownTimeout);
        if (!ended && ended.error().code != Code::Timeout) return Failure(ended.error());
        if (!ended) return no_address_left();
        const auto existing = factory_.existing();
        if (!existing) return Failure(existing.error());
        lock.lock();
        collect(*existing);
      } else if (!drop_spare(lock, mode == NetworkMode::Bridge ? ready_none_ : ready_)) {
        return no_address_left();
      }
    }
  }

  Result<void> limit_bandwidth(Slot& slot, const Bandwidth& limit) {
    if (slot.mode != NetworkMode::Bridge)
      return fail(Code::InvalidRequest, "limit of bandwidth: the sandbox has no network of its own");
    slot.shaped = true;
    if (const auto done = firewall_.limit_sending(slot.index, limit.send); !done) return done;
    return factory_.shape(slot, limit);
  }

  void give_back(Slot slot, bool recyclable) {
    // At once, not when the pool's thread comes to it: nothing leads into it any more when we return.
    if (const auto done = firewall_.refuse(slot.index); !done)
      log_error("address not refused", {{"slot", slot.index}, {"error", done.error().message}});
    if (const auto done = firewall_.unpublish_all(slot.index); !done) {
      log_error("published ports not removed", {{"slot", slot.index}, {"error", done.error().message}});
      recyclable = false;
    }
    {
      const std::lock_guard lock(mutex_);
      taken_.erase(slot.index);
      refill_failed_ = false;
      recyclable = recyclable && slot.netns;
      returned_.push_back({.slot = std::move(slot), .recyclable = recyclable});
    }
    work_.notify_one();
  }

  Counts counts() const {
    const std::lock_guard lock(mutex_);
    return {.ready = static_cast<unsigned>(ready_.size() + ready_none_.size()),
            .taken = static_cast<unsigned>(taken_.size()),
            .draining = static_cast<unsigned>(returned_.size() + dirty_count() + draining_.size())};
  }

  void wait_until_idle() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stop_ || (!busy_ && !has_work()); });
  }

 private:
  Failure no_address_left() const {
    return fail(Code::Unavailable,
                fmt::format("no address left: all {} of {} are in use, remove sandboxes or configure a "
                            "larger network.subnet",
                            config_.capacity(), format_subnet(config_.subnet)));
  }

  // An unused index, or none. New ones first: an address rests as long as possible before it is used again.
  std::optional<unsigned> unused_index() {
    while (next_ < config_.capacity()) {
      const unsigned index = next_++;
      if (!found_.contains(index)) return index;
    }
    if (free_.empty()) return std::nullopt;
    const unsigned index = free_.front();
    free_.pop_front();
    return index;
  }

  // Draining indices whose interface does not exist are free. Looking costs a list of all interfaces, so it is done
  // when nothing else is left, or when as many have come as there were after the last time.
  void collect(const std::vector<unsigned>& existing) {
    const std::set<unsigned> there(existing.begin(), existing.end());
    std::erase_if(draining_, [&](unsigned index) {
      if (there.contains(index)) return false;
      free_.push_back(index);
      return true;
    });
    collect_at_ = kCollectAt + 2 * draining_.size();
  }

  Result<Slot> make(unsigned index, NetworkMode mode) {
    auto slot = factory_.make(index, mode);
    if (!slot || mode == NetworkMode::None) return slot;
    if (const auto done = firewall_.admit(index); !done) return Failure(done.error());
    return slot;
  }

  Result<Slot> make_taken(unsigned index, NetworkMode mode) {
    auto slot = make(index, mode);
    if (!slot) {
      const std::lock_guard lock(mutex_);
      taken_.erase(index);
      draining_.insert(index);
    }
    return slot;
  }

  // The last indices may be in slots that are ready, but of the wrong kind. Called and returns with the lock held.
  bool drop_spare(std::unique_lock<std::mutex>& lock, std::deque<Slot>& spare) {
    if (spare.empty()) return false;
    Slot slot = std::move(spare.front());
    spare.pop_front();
    const unsigned index = slot.index;
    const bool bridge = slot.mode == NetworkMode::Bridge;
    lock.unlock();
    drop(std::move(slot));
    lock.lock();
    if (bridge)
      draining_.insert(index);
    else
      free_.push_back(index);
    return true;
  }

  // Closes the descriptors, after which the kernel frees everything in its own time: deleting the interface ourselves
  // would cost 20 ms.
  void drop(Slot slot) {
    if (slot.mode == NetworkMode::None) return;
    if (const auto done = firewall_.expel(slot.index); !done)
      log_error("slot not expelled from the firewall", {{"slot", slot.index}, {"error", done.error().message}});
  }

  // The end of the refusal that began with give_back().
  bool accept(const Slot& slot) {
    const auto done = firewall_.accept(slot.index);
    if (!done) log_error("address stays refused", {{"slot", slot.index}, {"error", done.error().message}});
    return done.has_value();
  }

  bool wants_slot() const { return no_bridge_.empty() && ready_.size() < config_.ready_slots && !refill_failed_; }
  std::size_t dirty_count() const { return dirty_.size() + dirty_indices_.size(); }
  bool wants_forgetting() const {
    return dirty_count() > 0 &&
           (forget_now_ || dirty_count() >= config_.recycle_batch || system_clock().steady_now() >= forget_at_);
  }
  bool has_work() const { return !returned_.empty() || wants_slot() || wants_forgetting(); }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      const auto ready = [&] { return stop_ || has_work(); };
      if (dirty_count() > 0)
        work_.wait_until(lock, forget_at_, ready);
      else
        work_.wait(lock, ready);
      if (!ready()) continue;
      if (stop_) break;
      busy_ = true;
      if (!returned_.empty()) {
        Returned returned = std::move(returned_.front());
        returned_.pop_front();
        receive(lock, std::move(returned));
      } else if (wants_slot()) {
        refill(lock);
      } else {
        forget(lock);
      }
      busy_ = false;
      changed_.notify_all();
    }
    changed_.notify_all();
  }

  // Called and returns with the lock held, like the next two.
  void receive(std::unique_lock<std::mutex>& lock, Returned returned) {
    Slot slot = std::move(returned.slot);
    const unsigned index = slot.index;
    const bool bridge = slot.mode == NetworkMode::Bridge;
    std::deque<Slot>& ready = bridge ? ready_ : ready_none_;
    const bool wanted = ready.size() + (bridge ? dirty_.size() : 0) < std::max(1U, kKeepFactor * config_.ready_slots);
    lock.unlock();
    bool keep = returned.recyclable && wanted;
    if (keep) {
      const auto ended = factory_.end_sockets(slot);
      keep = ended && *ended;
      if (!ended) log_warn("slot not recycled", {{"slot", index}, {"error", ended.error().message}});
    }
    if (keep && slot.shaped) {
      const auto lifted = limit_bandwidth(slot, {});
      if (!lifted) log_warn("slot not recycled", {{"slot", index}, {"error", lifted.error().message}});
      keep = lifted.has_value();
      slot.shaped = false;
    }
    bool traffic = false;
    if (bridge) {
      const auto packets = factory_.packets(slot);
      traffic = !packets || *packets != slot.packets;
      keep = keep && packets;
    }
    if (keep && !traffic) keep = accept(slot);
    if (!keep) drop(std::move(slot));
    lock.lock();
    if (traffic && dirty_count() == 0) forget_at_ = system_clock().steady_now() + config_.forget_after;
    if (keep)
      (traffic ? dirty_ : ready)
          .push_back(std::move(slot));  // NOLINT(bugprone-use-after-move): only others were dropped
    else if (traffic)
      dirty_indices_.push_back(index);
    else if (bridge)
      draining_.insert(index);
    else
      free_.push_back(index);
  }

  // Makes slots and indices that had traffic usable again.
  void forget(std::unique_lock<std::mutex>& lock) {
    forget_now_ = false;
    std::deque<Slot> slots = std::exchange(dirty_, {});
    const std::vector<unsigned> dropped = std::exchange(dirty_indices_, {});
    lock.unlock();
    std::vector<unsigned> all = dropped;
    for (const Slot& slot : slots) all.push_back(slot.index);
    const auto done = factory_.forget_connections(all);
    if (!done) log_error("connections of slots not forgotten", {{"error", done.error().message}});
    std::vector<Slot> clean;
    std::vector<unsigned> gone = dropped;
    for (Slot& slot : slots) {
      const auto packets = factory_.packets(slot);
      if (done && packets && accept(slot)) {
        slot.packets = *packets;
        clean.push_back(std::move(slot));
      } else {
        gone.push_back(slot.index);
        drop(std::move(slot));
      }
    }
    lock.lock();
    for (Slot& slot : clean) ready_.push_back(std::move(slot));
    draining_.insert(gone.begin(), gone.end());
  }

  void refill(std::unique_lock<std::mutex>& lock) {
    auto index = unused_index();
    if (!index && dirty_count() > 0) {
      forget(lock);  // no address is left to wait for a whole batch
      if (!wants_slot()) return;
      index = unused_index();
    }
    if (draining_.size() >= (index ? collect_at_ : 1)) {
      const std::vector<unsigned> draining(draining_.begin(), draining_.end());
      lock.unlock();
      // The kernel is still taking all of them down: the first one that is gone gives its address.
      if (!index) (void)factory_.wait_for_end(draining, kRefillPatience);
      const auto existing = factory_.existing();
      lock.lock();
      if (existing) collect(*existing);
      if (!index) index = unused_index();
    }
    if (!index) {
      refill_failed_ = true;  // until something is taken or comes back
      return;
    }
    lock.unlock();
    auto slot = make(*index, NetworkMode::Bridge);
    lock.lock();
    if (slot) {
      ready_.push_back(std::move(*slot));
      return;
    }
    draining_.insert(*index);
    refill_failed_ = true;
    log_warn("network slot not made", {{"slot", *index}, {"error", slot.error().message}});
  }

  const NetworkConfig config_;
  Firewall& firewall_;
  SlotFactory factory_;

  mutable std::mutex mutex_;         // everything below
  std::condition_variable work_;     // for the worker
  std::condition_variable changed_;  // the worker has done something
  std::string no_bridge_;
  bool stop_ = false;
  bool busy_ = false;           // the worker is at it, without the lock
  bool refill_failed_ = false;  // not tried again before something changes
  unsigned next_ = 0;
  std::size_t collect_at_ = kCollectAt;
  std::deque<Slot> ready_;
  std::deque<Slot> ready_none_;
  std::deque<Returned> returned_;
  std::deque<Slot> dirty_;               // to be used again when the kernel has forgotten its connections
  std::vector<unsigned> dirty_indices_;  // the same, of dropped slots
  bool forget_now_ = false;              // a create waits for one
  std::chrono::steady_clock::time_point forget_at_;
  std::set<unsigned> taken_;
  std::set<unsigned> draining_;
  std::set<unsigned> found_;  // adopted, or draining at start(): never new, wherever they are now
  std::deque<unsigned> free_;
  std::thread worker_;
};

Result<std::unique_ptr<SlotPool>> SlotPool::create(const NetworkConfig& config, Firewall& firewall) {
  if (const auto valid = validate(config); !valid) return Failure(valid.error());
  auto factory = SlotFactory::open(config);
  if (!factory) return Failure(factory.error());
  return std::unique_ptr<SlotPool>(new SlotPool(std::make_unique<Impl>(config, firewall, std::move(*factory))));
}

SlotPool::SlotPool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SlotPool::~SlotPool() = default;

Result<Slot> SlotPool::adopt(unsigned index, NetworkMode mode, pid_t pid, SlotHolder holder) {
  return impl_->adopt(index, mode, pid, holder);
}
Result<void> SlotPool::start(std::string no_bridge) { return impl_->start(std::move(no_bridge)); }
Result<Slot> SlotPool::take(NetworkMode mode) { return impl_->take(mode); }
Result<void> SlotPool::limit_bandwidth(Slot& slot, const Bandwidth& limit) {
  return impl_->limit_bandwidth(slot, limit);
}
void SlotPool::give_back(Slot slot, bool recyclable) { impl_->give_back(std::move(slot), recyclable); }
SlotPool::Counts SlotPool::counts() const { return impl_->counts(); }
void SlotPool::wait_until_idle() { impl_->wait_until_idle(); }

}  // namespace osb::sandboxd
