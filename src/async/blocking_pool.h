#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "async/net.h"

namespace osb {

// The door to blocking calls (sqlite, mount, archives, large directory walks). Threads start when work comes and none
// is free, never more than `threads`: an idle process has none. They block all signals. Where the system has no thread
// left, work runs on the caller itself.
//
// Declare it after the io_context: the destructor runs what is still queued and joins, so that no thread posts to a
// loop that is gone.
class BlockingPool {
 public:
  explicit BlockingPool(std::size_t threads);
  ~BlockingPool();
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;

  // Runs fn on a thread of the pool and resumes the caller on its own executor, also when fn throws (the caller then
  // gets the exception). Cannot be cancelled, so the caller sleeps until fn has returned and [&] is sound:
  // co_await pool.run([&] { return db.load(id); })
  template <typename F>
  net::awaitable<std::invoke_result_t<F&>> run(F fn) {
    using R = std::invoke_result_t<F&>;
    std::exception_ptr thrown;
    if constexpr (std::is_void_v<R>) {
      co_await execute([&] { guard(thrown, fn); });
      if (thrown) std::rethrow_exception(thrown);
    } else {
      std::optional<R> result;
      co_await execute([&] { guard(thrown, [&] { result.emplace(fn()); }); });
      if (thrown) std::rethrow_exception(thrown);
      co_return std::move(*result);
    }
  }

  // Work without a waiting caller; it must not throw.
  void post(std::move_only_function<void()> work);

  // How many threads exist now.
  std::size_t threads() const;

 private:
  template <typename F>
  static void guard(std::exception_ptr& thrown, F&& fn) {
    try {
      fn();
    } catch (...) {
      thrown = std::current_exception();
    }
  }

  net::awaitable<void> execute(std::move_only_function<void()> work);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace osb
