#include "controller/queue/work_queue.h"

#include <exception>
#include <utility>

#include <boost/asio/this_coro.hpp>

#include "async/race.h"
#include "base/log.h"
#include "controller/queue/lanes.h"

namespace osb::controller {

using std::chrono::nanoseconds;

WorkQueue::WorkQueue(net::any_io_executor executor, Options options, Work work)
    : options_(std::move(options)),
      work_(std::move(work)),
      changed_(executor),
      work_ready_(executor),
      alarms_(executor) {}

void WorkQueue::add(const Key& key) {
  if (const auto busy = busy_.find(key); busy != busy_.end()) {
    busy->second = true;
    return;
  }
  if (!queued_.insert(key).second) return;
  ready_.push_back(key);
  work_ready_.notify_one();
}

void WorkQueue::add_after(const Key& key, nanoseconds time) {
  const Time at = options_.clock->steady_now() + std::max(time, nanoseconds(0));
  const auto [place, made] = later_.emplace(key, at);
  if (!made && place->second <= at) return;
  if (!made) by_time_.erase({place->second, key});
  place->second = at;
  by_time_.emplace(at, key);
  alarms_.notify_all();
}

void WorkQueue::ready_due() {
  while (!by_time_.empty() && by_time_.begin()->first <= options_.clock->steady_now()) {
    const Key key = by_time_.begin()->second;
    by_time_.erase(by_time_.begin());
    later_.erase(key);
    add(key);
  }
}

net::awaitable<void> WorkQueue::alarm() {
  using namespace race;
  for (;;) {
    ready_due();
    if (by_time_.empty()) {
      if (!co_await alarms_.wait()) co_return;
      continue;
    }
    const nanoseconds left = by_time_.begin()->first - options_.clock->steady_now();
    co_await (alarms_.wait() || options_.sleep(std::max(left, nanoseconds(0))));
    if ((co_await net::this_coro::cancellation_state).cancelled() != net::cancellation_type::none) co_return;
  }
}

net::awaitable<void> WorkQueue::look_at(Key key) {
  Result<Again> outcome = fail(Code::Internal, "");
  std::exception_ptr thrown;
  try {
    outcome = co_await work_(key);
  } catch (const std::exception& bug) {
    thrown = std::current_exception();
    outcome = fail(Code::Internal, std::string("bug: ") + bug.what());
  }
  const bool cancelled = (co_await net::this_coro::cancellation_state).cancelled() != net::cancellation_type::none;
  if (thrown && cancelled) std::rethrow_exception(thrown);
  ++done_;
  if (outcome) {
    pauses_.erase(key);
    if (*outcome) add_after(key, **outcome);
    co_return;
  }
  ++failed_;
  auto& pause = pauses_.try_emplace(key, options_.first_pause, options_.last_pause).first->second;
  const auto time = pause.next();
  log_warn("reconcile failed", {{"queue", options_.name},
                                {"object", key.to_string()},
                                {"error", outcome.error().message},
                                {"again_ms", time.count()}});
  add_after(key, time);
}

net::awaitable<void> WorkQueue::worker() {
  for (;;) {
    if (!co_await work_ready_.wait_until([this] { return !ready_.empty(); })) co_return;
    const Key key = std::move(ready_.front());
    ready_.pop_front();
    queued_.erase(key);
    busy_.emplace(key, false);
    co_await look_at(key);
    const bool again = busy_.extract(key).mapped();
    if (again) add(key);
    changed_.notify_all();
    if ((co_await net::this_coro::cancellation_state).cancelled() != net::cancellation_type::none) co_return;
  }
}

net::awaitable<void> WorkQueue::run() {
  using namespace race;
  const std::function<net::awaitable<void>()> lane = [this] { return worker(); };
  co_await (alarm() && run_lanes(options_.workers, lane));
}

}  // namespace osb::controller
