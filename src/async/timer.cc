#include "async/timer.h"

#include <list>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace osb {
namespace {

constexpr auto kResult = net::as_tuple(net::use_awaitable);

}  // namespace

net::awaitable<bool> sleep_for(std::chrono::nanoseconds time) {
  net::steady_timer timer(co_await net::this_coro::executor, time);
  const auto [error] = co_await timer.async_wait(kResult);
  co_return !error;
}

namespace detail {

net::awaitable<bool> run_limited(net::awaitable<void> task, std::chrono::nanoseconds limit) {
  // Shared: a timer that has fired already may still call back after this frame is gone.
  struct State {
    net::cancellation_signal stop;
    bool running = true;
    bool expired = false;
  };
  auto state = std::make_shared<State>();
  const auto executor = co_await net::this_coro::executor;
  // The task listens to `stop` instead of our own slot, which is therefore free to forward what our caller says.
  auto cancellation = co_await net::this_coro::cancellation_state;
  if (cancellation.slot().is_connected()) {
    cancellation.slot().assign([state](net::cancellation_type type) { state->stop.emit(type); });
  }
  net::steady_timer alarm(executor, limit);
  alarm.async_wait([state](boost::system::error_code error) {
    if (error || !state->running) return;
    state->expired = true;
    state->stop.emit(net::cancellation_type::terminal);
  });
  const auto [thrown] =
      co_await net::co_spawn(executor, std::move(task), net::bind_cancellation_slot(state->stop.slot(), kResult));
  state->running = false;
  if (cancellation.slot().is_connected()) cancellation.slot().clear();
  if (thrown && !state->expired) std::rethrow_exception(thrown);
  co_return state->expired;
}

}  // namespace detail

// Each waiter has a timer of its own that never expires; waking it is cancelling it.
struct Notifier::Impl {
  explicit Impl(net::any_io_executor ex) : executor(std::move(ex)) {}

  struct Waiter {
    explicit Waiter(const net::any_io_executor& ex) : timer(ex, net::steady_timer::time_point::max()) {}
    net::steady_timer timer;
    bool notified = false;
  };

  void wake(Waiter& waiter) {
    waiter.notified = true;
    waiter.timer.cancel();
  }

  net::any_io_executor executor;
  std::list<Waiter*> waiting;  // not yet notified, oldest first
};

Notifier::Notifier(net::any_io_executor executor) : impl_(std::make_shared<Impl>(std::move(executor))) {}

Notifier::~Notifier() {
  for (Impl::Waiter* waiter : impl_->waiting) waiter->timer.cancel();
}

void Notifier::notify_all() {
  for (Impl::Waiter* waiter : std::exchange(impl_->waiting, {})) impl_->wake(*waiter);
}

void Notifier::notify_one() {
  if (impl_->waiting.empty()) return;
  Impl::Waiter* waiter = impl_->waiting.front();
  impl_->waiting.pop_front();
  impl_->wake(*waiter);
}

net::awaitable<bool> Notifier::wait() { return wait_on(impl_); }

net::awaitable<bool> Notifier::wait_on(std::shared_ptr<Impl> impl) {
  Impl::Waiter waiter(impl->executor);
  // Also when the frame is destroyed instead of resumed.
  struct Registration {
    Impl& impl;
    Impl::Waiter& waiter;
    ~Registration() {
      if (!waiter.notified) impl.waiting.remove(&waiter);
    }
  } registration{*impl, waiter};
  impl->waiting.push_back(&waiter);
  co_await waiter.timer.async_wait(kResult);
  co_return waiter.notified;
}

net::awaitable<bool> Event::wait() {
  if (set_) co_return true;
  co_return co_await notifier_.wait();
}

}  // namespace osb
