#pragma once

#include <memory>
#include <string>

#include "cli/output/output.h"

namespace osb::cli {

// Says on stderr what is going on, once it has gone on for half a second; gone without a trace when destroyed. Only on
// a terminal and in table or raw mode: elsewhere nothing happens and no thread is started.
class Spinner {
 public:
  Spinner(const Output& output, std::string message);
  ~Spinner();
  Spinner(const Spinner&) = delete;
  Spinner& operator=(const Spinner&) = delete;

  // Replaces the message: "Pulling busybox (12.3 of 40.1 MiB)". May be called from any thread, and often.
  void update(std::string message);
  // Gone from the screen: before something else is written. Nothing is shown from here on.
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;  // nullptr when nothing is ever shown
};

}  // namespace osb::cli
