#pragma once

#include <chrono>
#include <opensandbox/async.h>

#include "client/sandbox_state.h"

namespace opensandbox::async {

// Settings of a run's stream besides its first request.
struct StreamOptions {
  bool keep_output = true;
  bool keep_json = false;
  bool background = false;  // the stream ends at once and says nothing about the end
  bool is_code = false;     // no exit code, output in pieces
  // How long a lost stream may be away; zero: it may not. Only for commands, whose events are numbered.
  std::chrono::milliseconds reconnect_for{0};
  // When following an existing command: its id, and the events that are known already.
  std::string id = {};
  std::uint64_t after = 0;
};

// Sends `first` to execd and hands its events to the sink until the last one. A stream that breaks is asked for again
// from behind the last event that was handed out; events that come twice are dropped.
Task<Execution> run_stream(SandboxPtr sandbox, Call first, StreamOptions options, EventSink sink);

// Kept output from a byte offset. `kind` is in the names of the answer's headers: EXECD-{kind}-TAIL-CURSOR.
Task<CommandLogs> read_logs(SandboxPtr sandbox, std::string target, std::optional<std::int64_t> cursor,
                            std::string kind);

// GET /command/{id}/events.
Call follow_call(const std::string& id, std::uint64_t after);

}  // namespace opensandbox::async
