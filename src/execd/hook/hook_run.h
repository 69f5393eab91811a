#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/line_splitter.h"
#include "execd/run/environment.h"
#include "execd/run/run.h"
#include "execd/run/run_host.h"

namespace osb::execd {

// A program to run: preStart, or one run of a periodic hook.
struct HookCommand {
  std::string title;  // "preStart hook", "periodic hook \"sweep\""
  std::vector<std::string> argv;
  std::chrono::seconds timeout{60};
};

// How it ended. A failure has a sentence that names the hook, how it ended and the end of its output.
struct HookEnd {
  int code = 0;         // as a shell has it; 124 when the time was up, 126 and 127 when it could not be started
  std::string failure;  // empty: it has succeeded
};

// Takes lines of output, whole ones with their newline.
using HookOutput = std::function<void(std::string lines)>;

// Runs the program without a shell, in the environment and directory of commands, and waits for its end, or for the end
// of its time: then its processes get SIGTERM and, five seconds later, SIGKILL. Lines of its output go to `output` as
// they come, up to 64 KiB of them; the rest is read, counted and dropped. Processes that it leaves behind stay. Host
// and environment outlive it. Cancelling leaves the program running, and the object must stay until the loop ends.
class HookRun {
 public:
  HookRun(RunHost& host, const CommandEnvironment& environment, HookCommand command, HookOutput output);

  net::awaitable<HookEnd> run();

 private:
  Result<void> start();
  void take(std::string_view bytes);
  void write(std::string_view line);
  HookEnd describe();
  std::string last_output();

  RunHost& host_;
  const CommandEnvironment& environment_;
  const HookCommand command_;
  const HookOutput output_;
  std::shared_ptr<Run> run_;
  Event ended_;
  LineSplitter splitter_;
  std::string pending_;  // lines for `output_`
  std::string tail_;     // the last bytes of all output
  std::size_t written_ = 0;
  std::uint64_t dropped_ = 0;
  bool timed_out_ = false;
};

}  // namespace osb::execd
