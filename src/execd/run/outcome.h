#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "execd/run/end_reason.h"
#include "execd/run/event_writer.h"
#include "execd/run/run.h"
#include "sys/spawn.h"

namespace osb::execd {

// The name of the error event of a process that failed.
inline constexpr std::string_view kCommandError = "CommandExecError";

// How clients see the end of a process: {0, ""}, {3, "exit status 3"}, {-1, "signal: killed"}.
struct Outcome {
  int exit_code = 0;
  std::string error;
  std::optional<EndReason> reason = {};
};
Outcome outcome_of(const sys::ExitStatus& status, const std::optional<EndReason>& reason = {});
// The final event for that: execution_complete, or error with the exit code as its value.
void write_outcome(EventWriter& writer, const RunEnd& end);

}  // namespace osb::execd
