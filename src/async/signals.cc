#include "async/signals.h"

#include <csignal>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace osb {

struct SignalSet::Impl {
  explicit Impl(const net::any_io_executor& executor) : set(executor) {}
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

void ignore_sigpipe() { ::signal(SIGPIPE, SIG_IGN); }

}  // namespace osb
