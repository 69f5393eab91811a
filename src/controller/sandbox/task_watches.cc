#include "controller/sandbox/task_watches.h"

#include <boost/asio/this_coro.hpp>

namespace osb::controller {
namespace {

using namespace std::chrono_literals;
constexpr std::chrono::milliseconds kWithoutVersion = 3s, kFirstPause = 100ms, kLastPause = 10s;

}  // namespace

TaskWatches::TaskWatches(net::any_io_executor executor, TaskExecutors& executors, kubernetes::Sleep sleep,
                         Changed changed)
    : executors_(executors),
      sleep_(std::move(sleep)),
      changed_(std::move(changed)),
      ended_(executor),
      tasks_(executor) {}

void TaskWatches::follow(const Key& sandbox, const std::string& address, const Result<TaskList>& answer) {
  const Place place(sandbox, address);
  if (answer) pauses_.erase(place);
  // A watch of an older answer ends at once, and the look that follows begins the next one.
  if (!waiting_.insert(place).second) return;
  const std::string name = "tasks of " + sandbox.to_string() + " at " + address;
  if (!answer) {
    auto& pauses = pauses_.try_emplace(place, kFirstPause, kLastPause).first->second;
    tasks_.spawn(name, pause(place, pauses.next()));
  } else if (answer->version) {
    tasks_.spawn(name, watch(place, *answer->version));
  } else {
    tasks_.spawn(name, pause(place, kWithoutVersion));
  }
}

net::awaitable<void> TaskWatches::watch(Place place, std::uint64_t version) {
  for (;;) {
    const auto now = co_await executors_.wait_change(place.second, version);
    if ((co_await net::this_coro::cancellation_state).cancelled() != net::cancellation_type::none) co_return;
    if (now && now->version == version) continue;  // the longest time of one question
    co_return over(place);
  }
}

net::awaitable<void> TaskWatches::pause(Place place, std::chrono::milliseconds time) {
  if (co_await sleep_(time)) over(place);
}

void TaskWatches::over(const Place& place) {
  waiting_.erase(place);
  changed_(place.first);
}

void TaskWatches::forget(const Key& sandbox) {
  std::erase_if(pauses_, [&](const auto& each) { return each.first.first == sandbox; });
}

net::awaitable<void> TaskWatches::run() {
  co_await ended_.wait();  // nobody notifies it: until it is cancelled
  co_await net::this_coro::reset_cancellation_state(net::disable_cancellation());
  co_await tasks_.close();
}

}  // namespace osb::controller
