#include "async/signals.h"

#include <csignal>
#include <utility>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace osb {

struct SignalSet::Impl {
  explicit Impl(net::any_io_executor executor) : set(std::move(executor)) {}
  net::signal_set set;
};

SignalSet::SignalSet(net::any_io_executor executor, std::initializer_list<int> signals)
    : impl_(std::make_unique<Impl>(std::move(executor))) {
  for (const int signal : signals) impl_->set.add(signal);
}

SignalSet::~SignalSet() = default;

net::awaitable<Result<int>> SignalSet::next() {
  const auto [error, signal] = co_await impl_->set.async_wait(net::as_tuple(net::use_awaitable));
  if (error) co_return fail(Code::Cancelled, "wait for signal: cancelled");
  co_return signal;
}

void SignalSet::cancel() {
  boost::system::error_code ignored;
  impl_->set.cancel(ignored);
}

namespace {

// By value: an initializer_list would not outlive the call that makes the coroutine.
net::awaitable<int> wait_for(std::vector<int> signals) {
  net::signal_set set(co_await net::this_coro::executor);
  for (const int signal : signals) set.add(signal);
  co_return co_await set.async_wait(net::use_awaitable);
}

}  // namespace

net::awaitable<int> wait_signal(std::initializer_list<int> signals) { return wait_for(signals); }

void ignore_sigpipe() { ::signal(SIGPIPE, SIG_IGN); }

}  // namespace osb
