#include "execd/init/ending.h"

#include <algorithm>
#include <csignal>

#include <boost/asio/this_coro.hpp>

#include "async/blocking_pool.h"
#include "async/race.h"
#include "async/task_group.h"
#include "base/log.h"
#include "execd/init/descendants.h"

namespace osb::execd {
namespace {

using namespace race;
using std::chrono::milliseconds;

// The part of the limit for processes that no service knows of.
constexpr milliseconds kStrays{1000};
// Killed processes are gone at once, except in the hands of a broken driver or file system.
constexpr milliseconds kKilled{1000};

net::awaitable<void> shut_down(const std::function<net::awaitable<void>(milliseconds)>& service, milliseconds grace,
                               std::size_t& left, Event& done) {
  co_await service(grace);
  if (--left == 0) done.set();
}

net::awaitable<void> until_told(Ending& ending, Event& services_done) {
  co_await services_done.wait();
  if (ending.entrypoint != nullptr) co_await ending.entrypoint->ended();
}

}  // namespace

net::awaitable<void> end_processes(Ending& ending, int signal, milliseconds limit) {
  const auto executor = co_await net::this_coro::executor;
  const milliseconds strays = std::min(limit / 5, kStrays);
  Event services_done(executor);
  std::size_t left = ending.services.size();
  if (left == 0) services_done.set();
  TaskGroup tasks(executor);
  if (ending.entrypoint != nullptr) ending.entrypoint->signal(signal);
  for (const auto& service : ending.services) {
    tasks.spawn("shut down service", shut_down(service, limit - strays, left, services_done));
  }
  if (!ending.hurry.is_set()) {
    co_await (until_told(ending, services_done) || sleep_for(limit - strays) || ending.hurry.wait());
  }
  // Not the pool of the requests: all its threads may hang in a dead file system.
  BlockingPool pool(1);
  if (!ending.hurry.is_set()) {
    co_await pool.run([] { signal_descendants(SIGTERM); });
    co_await (ending.reaper.wait_childless() || sleep_for(strays) || ending.hurry.wait());
  }
  const auto killed = co_await pool.run([] { return kill_descendants(kKilled); });
  if (!killed) log_warn("processes left behind", {{"error", killed.error().message}});
  co_await (ending.reaper.wait_childless() || sleep_for(kKilled));
  // With their processes gone the services have nothing left to wait for.
  co_await (services_done.wait() || sleep_for(kKilled));
  if (ending.entrypoint != nullptr) co_await (ending.entrypoint->ended() || sleep_for(kKilled));
  if (ending.entrypoint != nullptr) co_await ending.entrypoint->flush_log(kKilled);
  co_await tasks.close();
}

}  // namespace osb::execd
