#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "async/child_reaper.h"
#include "async/timer.h"
#include "execd/init/entrypoint.h"

namespace osb::execd {

// Everything that has to end before the daemon does. References outlive end_processes().
struct Ending {
  ChildReaper& reaper;
  Entrypoint* entrypoint = nullptr;  // null: none
  // Services that know best how to end what they have started; each gets the time it has for that.
  std::vector<std::function<net::awaitable<void>(std::chrono::milliseconds)>> services;
  Event& hurry;  // set: the time is up
};

// Passes `signal` to the entrypoint, lets the services end their processes, sends SIGTERM to all descendants that
// still run, and SIGKILL to those left after `limit`. Returns when none is left, at most about two seconds after the
// limit.
net::awaitable<void> end_processes(Ending& ending, int signal, std::chrono::milliseconds limit);

}  // namespace osb::execd
