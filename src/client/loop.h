#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <opensandbox/async.h>
#include <opensandbox/connection.h>
#include <optional>
#include <thread>
#include <utility>

#include <boost/asio/async_result.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "client/errors.h"

namespace opensandbox {

namespace net = boost::asio;

// A thread that waits for the end of a synchronous call and meanwhile runs the caller's functions for it. The object is
// on the caller's stack; the call ends before it does.
class Caller {
 public:
  using Work = std::move_only_function<void()>;

  // From any thread.
  void post(Work work);
  void finish();
  // On the calling thread: until finish(). An exception of the caller's functions is thrown again here, after the end.
  void wait();

  // For coroutines: runs `work` on the calling thread. After one of the caller's functions threw: Cancelled.
  template <typename T>
  async::Task<T> run(std::move_only_function<Result<T>()> work) {
    auto executor = co_await net::this_coro::executor;
    std::optional<Result<T>> out;
    co_await net::async_initiate<const net::use_awaitable_t<>, void()>(
        [&](auto handler) {
          post([&, handler = std::move(handler)]() mutable {
            if (thrown_) {
              out = cancelled("a function of the caller threw");
            } else {
              try {
                out = work();
              } catch (...) {
                thrown_ = std::current_exception();
                out = cancelled("a function of the caller threw");
              }
            }
            net::post(executor, std::move(handler));
          });
        },
        net::use_awaitable);
    co_return std::move(*out);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> work_;
  bool finished_ = false;
  std::exception_ptr thrown_;  // touched by the calling thread only
};

// The inside of a Client: a loop on a thread of its own and the coroutine client on it.
struct Client::Core {
  explicit Core(const ConnectionConfig& config);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  net::io_context io{1};
  net::executor_work_guard<net::io_context::executor_type> work;
  std::optional<async::Client> client;  // ends before the loop
  std::optional<Error> failed;          // why there is no client
  std::thread thread;

  std::mutex mutex;
  std::condition_variable idle;
  int background = 0;  // tasks under way

  // Runs it without waiting. The end of the client waits for it, for a while.
  void run_in_background(async::Task<void> task);

  // Runs a coroutine on the loop and waits for it. `make(caller)` gives the coroutine.
  template <typename Make>
  auto run(Make make) {
    Caller caller;
    return run_with(caller, make(caller));
  }
  template <typename T>
  Result<T> run_task(async::Task<T> task) {
    Caller caller;
    return run_with(caller, std::move(task));
  }

 private:
  template <typename T>
  Result<T> run_with(Caller& caller, async::Task<T> task) {
    if (std::this_thread::get_id() == thread.get_id()) {
      return invalid_argument(
          "synchronous calls cannot be made from the client's own thread (ConnectionConfig::debug)");
    }
    std::optional<Result<T>> out;
    std::exception_ptr broken;
    net::co_spawn(io, store(std::move(task), out), [&](std::exception_ptr error) {
      broken = error;
      caller.finish();
    });
    caller.wait();
    if (broken) std::rethrow_exception(broken);
    return std::move(*out);
  }
  template <typename T>
  static net::awaitable<void> store(async::Task<T> task, std::optional<Result<T>>& out) {
    out.emplace(co_await std::move(task));
  }
};

}  // namespace opensandbox
