#pragma once

#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "async/net.h"

namespace osb {

// Two tasks at once, on the executor of the coroutine that awaits them. After `using namespace race;`
//
//   auto first = co_await (event.wait() || sleep_for(limit));
//   auto [a, b] = co_await (left() && right());
//
// || returns with the first task that ends, after the other one was cancelled and has ended too. && returns when both
// have ended; an exception of one cancels the other.
//
// They mean what Asio's awaitable_operators mean. Those are templates of the two result types, two to four seconds of
// compilation for each pair; here tasks without a result are raced, which is compiled once.

namespace race_detail {

// Which of the two has ended first, 0 or 1. A task that throws has not ended: the other one decides.
net::awaitable<std::size_t> first(net::awaitable<void> left, net::awaitable<void> right);
net::awaitable<void> both(net::awaitable<void> left, net::awaitable<void> right);

template <typename T>
using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <typename T>
net::awaitable<void> store(net::awaitable<T> task, std::optional<T>& out) {
  out.emplace(co_await std::move(task));
}

inline net::awaitable<void> store(net::awaitable<void> task, std::optional<std::monostate>& out) {
  out.emplace();
  return task;
}

// a || b || c is (a || b) || c: its result has one alternative for each of the three.
template <typename T, typename U>
struct Either {
  using type = std::variant<T, U>;
};
template <typename... T, typename U>
struct Either<std::variant<T...>, U> {
  using type = std::variant<T..., U>;
};

template <typename Out, typename T>
Out widened(T&& value) {
  return Out(std::in_place_index<0>, std::forward<T>(value));
}
template <typename Out, typename... T, std::size_t... I>
Out widened(std::variant<T...>& value, std::index_sequence<I...>) {
  std::optional<Out> out;
  (void)((value.index() == I ? (out.emplace(std::in_place_index<I>, std::move(std::get<I>(value))), true) : false) ||
         ...);
  return std::move(*out);
}
template <typename Out, typename... T>
Out widened(std::variant<T...>&& value) {
  return widened<Out>(value, std::index_sequence_for<T...>());
}

}  // namespace race_detail

namespace race {

template <typename T, typename U>
net::awaitable<typename race_detail::Either<race_detail::Value<T>, race_detail::Value<U>>::type> operator||(
    net::awaitable<T> left, net::awaitable<U> right) {
  using Out = race_detail::Either<race_detail::Value<T>, race_detail::Value<U>>::type;
  std::optional<race_detail::Value<T>> a;
  std::optional<race_detail::Value<U>> b;
  const std::size_t winner =
      co_await race_detail::first(race_detail::store(std::move(left), a), race_detail::store(std::move(right), b));
  if (winner == 0) co_return race_detail::widened<Out>(std::move(*a));
  co_return Out(std::in_place_index<std::variant_size_v<Out> - 1>, std::move(*b));
}

template <typename T, typename U>
auto operator&&(net::awaitable<T> left, net::awaitable<U> right) -> net::awaitable<std::conditional_t<
    std::is_void_v<T>, U,
    std::conditional_t<std::is_void_v<U>, T, std::tuple<race_detail::Value<T>, race_detail::Value<U>>>>> {
  std::optional<race_detail::Value<T>> a;
  std::optional<race_detail::Value<U>> b;
  co_await race_detail::both(race_detail::store(std::move(left), a), race_detail::store(std::move(right), b));
  if constexpr (std::is_void_v<T> && std::is_void_v<U>) {
    co_return;
  } else if constexpr (std::is_void_v<T>) {
    co_return std::move(*b);
  } else if constexpr (std::is_void_v<U>) {
    co_return std::move(*a);
  } else {
    co_return std::tuple(std::move(*a), std::move(*b));
  }
}

}  // namespace race
}  // namespace osb
