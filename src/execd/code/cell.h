#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "async/net.h"
#include "async/timer.h"
#include "base/stopwatch.h"
#include "execd/run/event_log.h"
#include "execd/run/event_writer.h"

namespace osb::execd {

// The error names that clients see when a runner, not the code in it, is the reason.
inline constexpr std::string_view kKernelDied = "KernelDied";
inline constexpr std::string_view kKernelKilled = "KernelKilled";
inline constexpr std::string_view kExecutionTimeout = "ExecutionTimeout";

// One run of code in a context, as numbered events: init, output, results, at most one error, execution_complete. An
// error of the code is followed by execution_complete, as the contract has it; fail() ends the run with an error alone.
class Cell {
 public:
  struct Plan {
    std::string context_id;  // text of the init event
    std::uint64_t number = 1;
    std::chrono::milliseconds timeout{0};  // zero: none
    EventLog::Options log;
    std::move_only_function<void(bool success, std::chrono::milliseconds took)> on_end;
    const Clock* clock = &system_clock();
  };

  Cell(const net::any_io_executor& executor, Plan plan);
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;

  std::uint64_t number() const { return plan_.number; }
  std::chrono::milliseconds timeout() const { return plan_.timeout; }
  const std::shared_ptr<EventLog>& log() const { return log_; }
  bool ended() const { return ended_.is_set(); }
  // Returns when the last event is written, true; false after `limit`.
  net::awaitable<bool> wait_end(std::chrono::nanoseconds limit);

  // Readers see what was written after publish(), finish() or fail().
  void output(bool is_stderr, std::string_view text);
  // A value by MIME type; of the code itself, or (display) shown on the way. Values too large for an event are cut or
  // left out, and standard error says so. `count` is the kernel's own number of the run; 0: the context's.
  void result(const std::map<std::string, std::string>& data, bool display, std::uint64_t count = 0);
  void error(std::string_view name, std::string_view value, std::span<const std::string> traceback);
  bool failed() const { return failed_; }
  void publish() { log_->publish(); }

  // From here on an error of the code is reported as a timeout.
  void set_timed_out() { timed_out_ = true; }
  void finish();
  void fail(std::string_view name, std::string_view value, const std::optional<EndReason>& reason = {});

 private:
  std::chrono::milliseconds elapsed() const;
  std::string timeout_text() const;
  std::optional<EndReason> timeout_reason() const;
  void close(bool success);

  Plan plan_;
  std::shared_ptr<EventLog> log_;
  EventWriter writer_;
  Event ended_;
  const Stopwatch time_{*plan_.clock};
  bool failed_ = false;
  bool timed_out_ = false;
};

}  // namespace osb::execd
