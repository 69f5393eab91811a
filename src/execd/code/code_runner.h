#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "async/net.h"
#include "base/error.h"
#include "execd/code/cell.h"

namespace osb::execd {

// The settings of a single run; the next run finds the directory and the variables as they were before.
struct RunSettings {
  std::string directory;  // absolute; empty: the one that the context is in
  std::map<std::string, std::string> envs;
  bool empty() const { return directory.empty() && envs.empty(); }
};

// Runs the code of one context, one cell at a time, and keeps the state in between. One thread.
class CodeRunner {
 public:
  virtual ~CodeRunner() = default;

  // Returns when the runner takes code. Fails if it ends before, or after `limit`.
  virtual net::awaitable<Result<void>> ready(std::chrono::milliseconds limit) = 0;
  // False: it has ended, or is about to be killed. Its state is gone and it takes no more cells.
  virtual bool alive() const = 0;
  // How it ended, for people: "the python process ended with exit status 3". Empty while it lives.
  virtual std::string end_text() const = 0;

  // Runs the code; the cell ends by itself, also when the runner dies. Needs alive() and no other running cell, and
  // settings that the factory takes.
  virtual void run(std::shared_ptr<Cell> cell, std::string_view code, const RunSettings& settings) = 0;
  // Asks the running cell to stop. Later calls for the same cell do nothing.
  virtual void interrupt() = 0;
  // Ends the runner and every process that came out of it. The running cell fails with this reason.
  virtual void kill(std::string why) = 0;
  // Returns when no process of it is left.
  virtual net::awaitable<void> wait_gone() = 0;
};

}  // namespace osb::execd
