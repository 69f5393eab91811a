#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "execd/run/end_reason.h"
#include "execd/run/event_log.h"

namespace osb::execd {

// A line of a stream must stay below 4 MiB or the Go client gives up; this is what an event may take.
inline constexpr std::size_t kMaxEventBytes = 4 * 1024 * 1024 - 1024;
// So much of a line can be in one event when nothing in it needs escaping: the cap for line splitters.
inline constexpr std::size_t kMaxEventText = kMaxEventBytes - 256;

// Encodes events straight into a log: {"type":..,..,"timestamp":ms,"seq":n}, LF, LF. Nothing reaches readers before
// publish().
class EventWriter {
 public:
  explicit EventWriter(EventLog& log) : log_(log) {}

  // The time of the events that follow; one look at the clock per batch is enough.
  void stamp(std::int64_t unix_millis);

  void init(std::string_view id);
  // Of one of many runs with the same id: `run` tells them apart (an addition to the contract).
  void init(std::string_view id, std::uint64_t run);
  // Output. `text` may be any bytes; a text that does not fit one event continues in the next.
  void output(bool is_stderr, std::string_view text);
  void complete(std::chrono::milliseconds took);
  void error(std::string_view name, std::string_view value, std::span<const std::string> traceback,
             const std::optional<EndReason>& reason = {});

  // An event that only one kind of run has: all of its fields up to the timestamp, without the closing brace.
  void write(std::string_view fields);

  void publish() { log_.publish(); }

 private:
  char* finish(char* at);
  void long_output(std::string_view head, std::string_view text);

  EventLog& log_;
  std::string timestamp_;  // `,"timestamp":1700000000000,"seq":`
};

// Events that are not part of a log: they carry no number.
std::string ping_event(std::int64_t unix_millis);
std::string complete_event(std::int64_t unix_millis, std::chrono::milliseconds took);

}  // namespace osb::execd
