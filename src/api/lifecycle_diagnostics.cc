#include "api/lifecycle_diagnostics.h"

#include <algorithm>

#include "api/lifecycle_error.h"
#include "base/base64.h"
#include "base/json_escape.h"
#include "base/parse_number.h"
#include "base/text.h"
#include "base/utf8.h"

namespace osb::api {
namespace {

constexpr std::chrono::seconds kDefaultSince = std::chrono::minutes(10);
constexpr std::int64_t kLongestTail = 1'000'000'000;
constexpr std::chrono::seconds kLongestSince = std::chrono::days(36500);

Result<std::optional<std::string>> read_scope(std::string_view kind, const std::string& text,
                                              std::initializer_list<std::string_view> known) {
  std::string scope = lower(trimmed(text));
  if (std::ranges::find(known, scope) != known.end()) return scope;
  return refuse(Code::InvalidRequest, reason::kScopeUnsupported,
                "Unsupported " + std::string(kind) + " diagnostics scope '" + text +
                    "'. Supported scopes: " + joined(known) + ".");
}

Result<void> read_count(std::string_view where, const std::string& text, int max, int& out) {
  const auto number = parse_int_parameter(where, text, 1, max);
  if (!number) return Failure(number.error());
  out = static_cast<int>(*number);
  return {};
}

}  // namespace

std::chrono::seconds parse_since(std::string_view text) {
  std::int64_t unit = 1;
  if (!text.empty()) {
    switch (text.back()) {
      case 's':
        unit = 1;
        break;
      case 'm':
        unit = 60;
        break;
      case 'h':
        unit = 3600;
        break;
      case 'd':
        unit = 86400;
        break;
      default:
        unit = 0;
    }
    if (unit != 0) text.remove_suffix(1);
    if (unit == 0) unit = 1;
  }
  const std::int64_t number = parse_number<std::int64_t>(text).value_or(-1);
  if (number < 0) return kDefaultSince;
  if (number > kLongestSince.count() / unit) return kLongestSince;
  return std::chrono::seconds(number * unit);
}

Result<LogsQuery> decode_logs_query(QueryPairs query) {
  LogsQuery out;
  for (const auto& [key, value] : query) {
    if (key == "scope") {
      auto scope = read_scope("logs", value, {"container", "all"});
      if (!scope) return Failure(scope.error());
      out.scope = std::move(*scope);
    } else if (key == "tail") {
      if (auto ok = read_count("query/tail", value, 10000, out.tail); !ok) return Failure(ok.error());
    } else if (key == "since") {
      out.since = parse_since(value);
    }
  }
  return out;
}

Result<LogStreamQuery> decode_log_stream_query(QueryPairs query) {
  LogStreamQuery out;
  for (const auto& [key, value] : query) {
    if (key == "tail") {
      const auto tail = parse_int_parameter("query/tail", value, 0, kLongestTail);
      if (!tail) return Failure(tail.error());
      out.tail = static_cast<std::size_t>(*tail);
    } else if (key == "since") {
      out.since = parse_since(value);
    } else if (key == "follow") {
      const auto follow = parse_bool_parameter("query/follow", value.empty() ? "true" : value);
      if (!follow) return Failure(follow.error());
      out.follow = *follow;
    }
  }
  return out;
}

void append_output_event(std::string& out, std::string_view time, std::string_view bytes) {
  out += R"({"type":"output")";
  if (!time.empty()) {
    out += R"(,"time":)";
    append_json_string(out, time);
  }
  if (find_invalid_utf8(bytes) == std::string_view::npos) {
    out += R"(,"text":)";
    append_json_string(out, bytes);
  } else {
    out += R"(,"base64":")" + encode_base64(bytes) + '"';
  }
  out += '}';
}

std::string encode_log_end_event(std::int64_t unix_ms, std::string_view state, std::string_view reason,
                                 std::optional<int> exit_code) {
  std::string out = R"({"type":"end","timestamp":)" + std::to_string(unix_ms) + R"(,"state":)";
  append_json_string(out, state);
  if (!reason.empty()) {
    out += R"(,"reason":)";
    append_json_string(out, reason);
  }
  if (exit_code) out += R"(,"exitCode":)" + std::to_string(*exit_code);
  out += '}';
  return out;
}

std::string encode_log_error_event(std::int64_t unix_ms, std::string_view code, std::string_view message) {
  std::string out = R"({"type":"error","timestamp":)" + std::to_string(unix_ms) + R"(,"code":)";
  append_json_string(out, code);
  out += R"(,"message":)";
  append_json_string(out, message);
  out += '}';
  return out;
}

Result<EventsQuery> decode_events_query(QueryPairs query) {
  EventsQuery out;
  for (const auto& [key, value] : query) {
    if (key == "scope") {
      auto scope = read_scope("events", value, {"runtime", "lifecycle", "all"});
      if (!scope) return Failure(scope.error());
      out.scope = std::move(*scope);
    } else if (key == "limit") {
      if (auto ok = read_count("query/limit", value, 500, out.limit); !ok) return Failure(ok.error());
    }
  }
  return out;
}

Result<SummaryQuery> decode_summary_query(QueryPairs query) {
  SummaryQuery out;
  for (const auto& [key, value] : query) {
    if (key == "tail") {
      if (auto ok = read_count("query/tail", value, 10000, out.tail); !ok) return Failure(ok.error());
    } else if (key == "event_limit") {
      if (auto ok = read_count("query/event_limit", value, 500, out.event_limit); !ok) return Failure(ok.error());
    }
  }
  return out;
}

std::string encode_diagnostic_context(std::string_view sandbox_id, std::string_view backend,
                                      const std::map<std::string, std::string>& identifiers, std::string_view state) {
  std::string out = R"({"sandboxId":)";
  append_json_string(out, sandbox_id);
  out += R"(,"backendType":)";
  append_json_string(out, backend);
  out += R"(,"backendIdentifiers":{)";
  for (const auto& [name, value] : identifiers) {
    if (!out.ends_with('{')) out += ',';
    append_json_string(out, name);
    out += ':';
    append_json_string(out, value);
  }
  out += R"(},"state":)";
  append_json_string(out, state);
  out += '}';
  return out;
}

std::string encode_diagnostic(const DiagnosticContent& content) {
  std::string out;
  const auto field = [&](std::string_view name, std::string_view value) {
    out += name;
    append_json_string(out, value);
  };
  const bool inline_text = content.content_url.empty();
  field(R"({"sandboxId":)", content.sandbox_id);
  field(R"(,"kind":)", content.kind);
  field(R"(,"scope":)", content.scope);
  field(R"(,"delivery":)", inline_text ? "inline" : "url");
  field(R"(,"contentType":)", content.content_type);
  std::optional<std::uint64_t> length = content.content_length;
  if (inline_text) {
    field(R"(,"content":)", content.content);
    if (!length) length = content.content.size();
  } else {
    field(R"(,"contentUrl":)", content.content_url);
    if (content.url_expires_at) field(R"(,"expiresAt":)", format_timestamp(*content.url_expires_at));
  }
  if (length) out += R"(,"contentLength":)" + std::to_string(*length);
  out += content.truncated ? R"(,"truncated":true)" : R"(,"truncated":false)";
  if (!content.warnings.empty()) {
    out += R"(,"warnings":)";
    char before = '[';
    for (const std::string& warning : content.warnings) {
      out += before;
      before = ',';
      append_json_string(out, warning);
    }
    out += ']';
  }
  out += '}';
  return out;
}

}  // namespace osb::api
