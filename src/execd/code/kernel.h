#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "async/net.h"
#include "base/error.h"
#include "execd/code/cell.h"

namespace osb::execd {

// Runs the code of one context, one cell at a time, and keeps the state in between. One thread.
class Kernel {
 public:
  virtual ~Kernel() = default;

  // Returns when the kernel takes code. Fails if it ends before, or after `limit`.
  virtual net::awaitable<Result<void>> ready(std::chrono::milliseconds limit) = 0;
  // False: it has ended, or is about to be killed. Its state is gone and it takes no more cells.
  virtual bool alive() const = 0;
  // How it ended, for people: "the python process ended with exit status 3". Empty while it lives.
  virtual std::string end_text() const = 0;

  // Runs the code; the cell ends by itself, also when the kernel dies. Needs alive() and no other running cell.
  virtual void run(std::shared_ptr<Cell> cell, std::string_view code) = 0;
  // Asks the running cell to stop. Later calls for the same cell do nothing.
  virtual void interrupt() = 0;
  // Ends the kernel and every process that came out of it. The running cell fails with this reason.
  virtual void kill(std::string why) = 0;
  // Returns when no process of it is left.
  virtual net::awaitable<void> wait_gone() = 0;
};

}  // namespace osb::execd
