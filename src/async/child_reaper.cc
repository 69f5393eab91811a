#include "async/child_reaper.h"

#include <csignal>
#include <optional>
#include <sys/wait.h>
#include <unordered_map>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace osb {
namespace {

// A storm of dying orphans must not keep the loop from its other work.
constexpr int kReapedPerTurn = 256;

struct Ended {
  pid_t pid;
  sys::ExitStatus status;
};

// Nothing when no child has ended, or none is left.
std::optional<Ended> free_one() {
  siginfo_t info{};
  while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | __WALL) < 0) {
    if (errno != EINTR) return std::nullopt;
  }
  if (info.si_pid == 0) return std::nullopt;
  if (info.si_code == CLD_EXITED) return Ended{info.si_pid, {info.si_status, 0}};
  return Ended{info.si_pid, {0, info.si_status}};
}

}  // namespace

// Shared with the pending handlers, so that a waiter may destroy the reaper.
struct ChildReaper::Impl : std::enable_shared_from_this<Impl> {
  explicit Impl(net::any_io_executor ex)
      : executor(std::move(ex)), signals(executor, SIGCHLD), freed(executor, net::steady_timer::time_point::max()) {}

  void listen() {
    signals.async_wait([self = shared_from_this()](boost::system::error_code error, int) {
      if (error || self->closed) return;
      // Before freeing: a child that ends from now on raises the signal again.
      self->listen();
      self->free_ended();
    });
  }

  void free_ended() {
    for (int i = 0; i < kReapedPerTurn; ++i) {
      const auto ended = free_one();
      if (!ended) {
        freed.cancel();
        return;
      }
      complete(ended->pid, ended->status);
      if (closed) return;
    }
    net::post(executor, [self = shared_from_this()] {
      if (!self->closed) self->free_ended();
    });
  }

  void complete(pid_t pid, sys::ExitStatus status) {
    auto waiter = waiters.extract(pid);
    if (!waiter.empty()) waiter.mapped()(status);
  }

  net::any_io_executor executor;
  net::signal_set signals;
  net::steady_timer freed;  // cancelled when there was something to free
  std::unordered_map<pid_t, std::move_only_function<void(sys::ExitStatus)>> waiters;
  bool closed = false;
};

ChildReaper::ChildReaper(net::any_io_executor executor) : impl_(std::make_shared<Impl>(std::move(executor))) {
  impl_->listen();
  // Children that ended before the signal was ours.
  net::post(impl_->executor, [impl = impl_] {
    if (!impl->closed) impl->free_ended();
  });
}

ChildReaper::~ChildReaper() {
  impl_->closed = true;
  const auto left = std::exchange(impl_->waiters, {});
  boost::system::error_code ignored;
  impl_->signals.cancel(ignored);
}

void ChildReaper::watch(pid_t pid, std::move_only_function<void(sys::ExitStatus)> done) {
  impl_->waiters.insert_or_assign(pid, std::move(done));
  // The signal of a zombie will report it later. Only a pid that no signal will ever report is handled here.
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0) return;
  net::post(impl_->executor, [impl = impl_, pid] {
    if (!impl->closed) impl->complete(pid, kUnknown);
  });
}

void ChildReaper::unwatch(pid_t pid) { impl_->waiters.erase(pid); }

bool ChildReaper::watches(pid_t pid) const { return impl_->waiters.contains(pid); }

net::awaitable<sys::ExitStatus> ChildReaper::wait(pid_t pid) {
  const auto impl = impl_;
  net::steady_timer ended(impl->executor, net::steady_timer::time_point::max());
  std::optional<sys::ExitStatus> status;
  // Also when the frame is destroyed instead of resumed.
  struct Registration {
    Impl& impl;
    pid_t pid;
    bool active = true;
    ~Registration() {
      if (active) impl.waiters.erase(pid);
    }
  } registration{*impl, pid};
  watch(pid, [&](sys::ExitStatus s) {
    status = s;
    registration.active = false;
    ended.cancel();
  });
  co_await ended.async_wait(net::as_tuple(net::use_awaitable));
  if (!status) throw boost::system::system_error(net::error::operation_aborted);
  co_return *status;
}

net::awaitable<bool> ChildReaper::wait_childless() {
  const auto impl = impl_;
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 && errno == ECHILD) co_return true;
    co_await impl->freed.async_wait(net::as_tuple(net::use_awaitable));
    // Ours and that of the timer look alike; only the first is meant for this coroutine.
    const auto state = co_await net::this_coro::cancellation_state;
    if (state.cancelled() != net::cancellation_type::none || impl->closed) co_return false;
  }
}

}  // namespace osb
