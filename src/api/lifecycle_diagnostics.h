#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/lifecycle_query.h"
#include "base/error.h"
#include "base/time.h"

// GET /sandboxes/{id}/diagnostics/{logs,events,inspect,summary}. With `scope`, even an empty one, the answer is a
// DiagnosticContent; without it plain text. A scope is trimmed and in small letters; an unknown one, also the empty
// one, is 400 DIAGNOSTICS_SCOPE_UNSUPPORTED.
namespace osb::api {

struct LogsQuery {
  std::optional<std::string> scope;  // container or all
  int tail = 100;
  std::optional<std::chrono::seconds> since;  // how long ago; an unreadable text counts as ten minutes
};
Result<LogsQuery> decode_logs_query(QueryPairs query);

// GET /sandboxes/{id}/diagnostics/logs/stream, ours: the output of an entrypoint, as events.
struct LogStreamQuery {
  std::optional<std::size_t> tail;  // nothing: all that is kept
  std::optional<std::chrono::seconds> since;
  bool follow = true;
};
Result<LogStreamQuery> decode_log_stream_query(QueryPairs query);

// {"type":"output","time":"..","text":".."}; bytes that are not UTF-8 are "base64" instead of "text".
void append_output_event(std::string& out, std::string_view time, std::string_view bytes);
// The last event: the entrypoint has ended, or all there is was sent.
std::string encode_log_end_event(std::int64_t unix_ms, std::string_view state, std::string_view reason,
                                 std::optional<int> exit_code);
// The last event: there may be more, but not from here.
std::string encode_log_error_event(std::int64_t unix_ms, std::string_view code, std::string_view message);

struct EventsQuery {
  std::optional<std::string> scope;  // runtime, lifecycle (an addition: the same) or all
  int limit = 50;
};
Result<EventsQuery> decode_events_query(QueryPairs query);

struct SummaryQuery {
  int tail = 50;
  int event_limit = 20;
};
Result<SummaryQuery> decode_summary_query(QueryPairs query);

// "90", "90s", "15m", "2h", "1d".
std::chrono::seconds parse_since(std::string_view text);

struct DiagnosticContent {
  std::string sandbox_id;
  std::string kind;  // logs or events
  std::string scope;
  std::string content_type = "text/plain; charset=utf-8";
  bool truncated = false;
  std::string content;      // delivered inline, unless there is a
  std::string content_url;  // URL
  std::optional<Timestamp> url_expires_at;
  std::optional<std::uint64_t> content_length;  // nothing: that of `content`
  std::vector<std::string> warnings;
};
std::string encode_diagnostic(const DiagnosticContent& content);

// GET /sandboxes/{id}/diagnostics/context.
std::string encode_diagnostic_context(std::string_view sandbox_id, std::string_view backend,
                                      const std::map<std::string, std::string>& identifiers, std::string_view state);

}  // namespace osb::api
