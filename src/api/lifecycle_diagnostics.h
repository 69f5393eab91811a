#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/lifecycle_query.h"
#include "base/error.h"
#include "base/time.h"

// GET /sandboxes/{id}/diagnostics/{logs,events,inspect,summary}. With `scope`, even an empty one, the answer is a
// DiagnosticContent; without it plain text.
namespace osb::api {

struct LogsQuery {
  std::optional<std::string> scope;  // one of the known ones; "" counts as container
  int tail = 100;
  std::optional<std::chrono::seconds> since;  // how long ago; what cannot be read counts as ten minutes
};
Result<LogsQuery> decode_logs_query(QueryPairs query);

struct EventsQuery {
  std::optional<std::string> scope;  // "" counts as lifecycle
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

}  // namespace osb::api
