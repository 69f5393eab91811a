#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "http/message.h"

namespace osb::execd {

// Whether the daemon works for anybody: requests that are served, streams and terminals that are connected, and work
// that goes on without a request. The server asks (GET /activity) before it pauses an idle sandbox. One loop.
class Activity {
 public:
  // `clock` outlives it.
  explicit Activity(const Clock& clock = system_clock()) : clock_(clock) {}

  // Work without a request: a background command, a program in a terminal.
  void add_source(std::function<bool()> busy) { sources_.push_back(std::move(busy)); }

  // Counts requests, except those that only look: /ping and /activity.
  http::Handler counting(http::Handler inner);

  struct Report {
    bool active = false;
    std::chrono::milliseconds idle{0};  // since the last activity that was seen
  };
  Report report();
  static std::string to_json(const Report& report);

 private:
  class Served;

  std::vector<std::function<bool()>> sources_;
  std::size_t served_ = 0;
  const Clock& clock_;
  std::chrono::steady_clock::time_point last_ = clock_.steady_now();
};

}  // namespace osb::execd
