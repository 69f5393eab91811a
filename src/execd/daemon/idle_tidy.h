#pragma once

#include <chrono>
#include <functional>

#include <boost/asio/steady_timer.hpp>

#include "async/net.h"

namespace osb::execd {

// Gives memory back after a while without requests (give_memory_back): there is one daemon per sandbox, and most of
// them wait most of the time. Belongs to one loop.
//
// Costs nothing while requests come (one timer, at most once per period, is behind all of them), and an idle daemon is
// not woken up. The first request afterwards takes about a tenth of a millisecond longer.
class IdleTidy {
 public:
  IdleTidy(net::any_io_executor executor, std::chrono::milliseconds period, std::function<void()> tidy)
      : timer_(executor), period_(period), tidy_(std::move(tidy)) {}

  // A request was served. The tidying follows one to two periods after the last call.
  void note_activity() {
    active_ = true;
    if (!waiting_) wait();
  }

 private:
  void wait();

  net::steady_timer timer_;
  const std::chrono::milliseconds period_;
  const std::function<void()> tidy_;
  bool active_ = false;   // since the timer was set
  bool waiting_ = false;  // for the timer
};

// Free heap pages, and the program's own (forget_program_pages): two thirds of the memory of an idle daemon.
void give_memory_back();

}  // namespace osb::execd
