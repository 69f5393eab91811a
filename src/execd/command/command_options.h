#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "execd/path/path.h"
#include "execd/run/event_log.h"

namespace osb::execd {

struct CommandOptions {
  // Per command: events in memory, further events in a file, bytes of a background command's log.
  std::size_t ring_bytes = 1024 * 1024;
  std::uint64_t spill_bytes = 64ULL * 1024 * 1024;
  std::uint64_t log_bytes = 256ULL * 1024 * 1024;
  std::string temp_directory = "/tmp";

  // Finished commands: how long they can be asked about, how many, and how much of their output is kept together. Where
  // a limit is passed the oldest lose their output first and are forgotten then.
  std::chrono::nanoseconds retention = std::chrono::hours(24);
  std::size_t finished = 10'000;
  std::size_t finished_with_output = 1'000;
  std::size_t finished_memory = 32 * 1024 * 1024;
  std::uint64_t finished_files = 1024ULL * 1024 * 1024;

  // The event log of one run; `hold_for_readers`: a slow reader holds the process back.
  EventLog::Options event_log(bool hold_for_readers) const {
    return {ring_bytes, spill_bytes, temp_directory, hold_for_readers};
  }

  // Between SIGTERM and SIGKILL.
  std::chrono::milliseconds interrupt_grace{3000};

  // EXECD_COMMAND_RETENTION (a duration), EXECD_COMMAND_RING_BYTES, EXECD_COMMAND_SPILL_BYTES, EXECD_COMMAND_LOG_BYTES,
  // EXECD_COMMAND_FINISHED, TMPDIR. A value that cannot be parsed is an error that names the variable.
  static Result<CommandOptions> from_environment(const Environment& env);
};

}  // namespace osb::execd
