#include "async/race.h"

#include <utility>

#include <boost/asio/experimental/awaitable_operators.hpp>

namespace osb::race_detail {

net::awaitable<std::size_t> first(net::awaitable<void> left, net::awaitable<void> right) {
  const auto ended = co_await net::experimental::awaitable_operators::operator||(std::move(left), std::move(right));
  co_return ended.index();
}

net::awaitable<void> both(net::awaitable<void> left, net::awaitable<void> right) {
  co_await net::experimental::awaitable_operators::operator&&(std::move(left), std::move(right));
}

}  // namespace osb::race_detail
