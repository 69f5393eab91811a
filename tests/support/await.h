#pragma once

#include <future>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include "async/net.h"

namespace osb::testing {

// Runs one coroutine to its end on a loop of its own and returns what it returned (or throws what it threw).
template <typename T>
T await(net::awaitable<T> task) {
  net::io_context io(1);
  std::future<T> result = net::co_spawn(io, std::move(task), net::use_future);
  io.run();
  return result.get();
}

// The same on a loop that the test made, for objects that live on it. Returns when the coroutine ends, even if other
// work is left on the loop.
template <typename T>
T await(net::io_context& io, net::awaitable<T> task) {
  std::future<T> result = net::co_spawn(io, std::move(task), net::use_future);
  io.restart();
  while (result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) io.run_one();
  return result.get();
}

}  // namespace osb::testing
