#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "async/net.h"
#include "async/race.h"

namespace osb::controller {

// Runs `lane` `count` times at once and returns when all have ended. Cancelling the caller cancels them. `lane` and
// everything it refers to outlive the call.
inline net::awaitable<void> run_lanes(std::size_t count, const std::function<net::awaitable<void>()>& lane) {
  using namespace race;
  if (count == 0) co_return;
  if (count == 1) {
    co_await lane();
    co_return;
  }
  co_await (run_lanes(count / 2, lane) && run_lanes(count - count / 2, lane));
}

// Calls `each` for every item, at most `most` at once.
template <typename Item>
net::awaitable<void> for_each_at_once(const std::vector<Item>& items, std::size_t most,
                                      std::function<net::awaitable<void>(const Item&)> each) {
  std::size_t next = 0;
  const std::function<net::awaitable<void>()> lane = [&]() -> net::awaitable<void> {
    while (next < items.size()) co_await each(items[next++]);
  };
  co_await run_lanes(std::min(items.size(), most), lane);
}

}  // namespace osb::controller
