#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "async/blocking_pool.h"

namespace osb::sandboxd {

// A value that another thread of the pool computes while the caller goes on. get() computes it itself when no thread
// was free, so a full pool cannot wait for itself. `make` does not throw. get() is called exactly once, before this
// object goes; everything that `make` refers to outlives that call.
template <typename T>
class PoolFuture {
 public:
  PoolFuture(BlockingPool& pool, std::move_only_function<T()> make) : state_(std::make_shared<State>()) {
    state_->make = std::move(make);
    pool.post([state = state_] { state->run(); });
  }
  PoolFuture(const PoolFuture&) = delete;
  PoolFuture& operator=(const PoolFuture&) = delete;

  T get() {
    state_->run();
    std::unique_lock lock(state_->mutex);
    state_->done.wait(lock, [&] { return state_->value.has_value(); });
    return std::move(*state_->value);
  }

 private:
  struct State {
    void run() {
      {
        const std::lock_guard lock(mutex);
        if (std::exchange(begun, true)) return;
      }
      T made = make();
      make = nullptr;
      const std::lock_guard lock(mutex);
      value.emplace(std::move(made));
      done.notify_one();
    }

    std::move_only_function<T()> make;
    std::mutex mutex;  // what follows
    std::condition_variable done;
    bool begun = false;
    std::optional<T> value;
  };
  std::shared_ptr<State> state_;
};

}  // namespace osb::sandboxd
