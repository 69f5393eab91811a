#include "async/blocking_pool.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <signal.h>
#include <thread>
#include <vector>

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace osb {

struct BlockingPool::Impl {
  explicit Impl(std::size_t limit_of_threads) : limit(limit_of_threads) {}

  void push(std::move_only_function<void()> work) {
    std::unique_lock lock(mutex);
    queue.push_back(std::move(work));
    // `idle` counts sleepers not yet woken for an earlier piece, so a burst starts as many threads as it needs.
    if (queue.size() <= idle || workers.size() >= limit || !start()) {
      if (workers.empty()) {
        // No thread can be started, and none exists that would do the work. A stalled loop is better than lost work: it
        // may be the very work that ends what has used the threads up.
        auto last = std::move(queue.back());
        queue.pop_back();
        lock.unlock();
        last();
        return;
      }
      ready.notify_one();
    }
  }

  bool start() {
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = true;
    try {
      workers.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      started = false;
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return started;
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      ++idle;
      ready.wait(lock, [this] { return stopping || !queue.empty(); });
      --idle;
      if (queue.empty()) return;
      auto next = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      next();
      next = nullptr;  // what it captured goes here, not under the lock
      lock.lock();
    }
  }

  const std::size_t limit;
  mutable std::mutex mutex;
  std::condition_variable ready;
  std::deque<std::move_only_function<void()>> queue;
  std::vector<std::thread> workers;
  std::size_t idle = 0;
  bool stopping = false;
};

BlockingPool::BlockingPool(std::size_t threads) : impl_(std::make_unique<Impl>(threads == 0 ? 1 : threads)) {}

BlockingPool::~BlockingPool() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->ready.notify_all();
  for (std::thread& worker : impl_->workers) worker.join();
}

void BlockingPool::post(std::move_only_function<void()> work) { impl_->push(std::move(work)); }

std::size_t BlockingPool::threads() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->workers.size();
}

net::awaitable<void> BlockingPool::execute(std::move_only_function<void()> work) {
  co_await net::async_initiate<const net::use_awaitable_t<>, void()>(
      [this](auto handler, std::move_only_function<void()> piece) {
        // The guard keeps the loop running while it has nothing but us to wait for.
        auto home = net::make_work_guard(net::get_associated_executor(handler));
        impl_->push([piece = std::move(piece), handler = std::move(handler), home = std::move(home)]() mutable {
          piece();
          net::post(home.get_executor(), std::move(handler));
        });
      },
      net::use_awaitable, std::move(work));
}

}  // namespace osb
