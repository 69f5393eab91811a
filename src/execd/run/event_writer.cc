#include "execd/run/event_writer.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/concat.h"
#include "base/json_escape.h"
#include "base/line_splitter.h"

namespace osb::execd {
namespace {

constexpr std::string_view kStdout = R"({"type":"stdout","text":")";
constexpr std::string_view kStderr = R"({"type":"stderr","text":")";
// Braces, quotes, field names, timestamp, number and line ends of an event around its text.
constexpr std::size_t kAround = 128;
// Up to here the room for the worst case is simply taken; above it the real size is found out first.
constexpr std::size_t kShortText = 1024;
constexpr std::size_t kPiece = 16 * 1024;

char* put(char* at, std::string_view bytes) {
  std::memcpy(at, bytes.data(), bytes.size());
  return at + bytes.size();
}

// Zero is left out, as the contract's other implementation does.
std::string execution_time(std::chrono::milliseconds took) {
  return took.count() > 0 ? concat(R"(,"execution_time":)", took.count()) : std::string();
}

}  // namespace

void EventWriter::stamp(std::int64_t unix_millis) {
  timestamp_ = concat(R"(,"timestamp":)", unix_millis, R"(,"seq":)");
}

char* EventWriter::finish(char* at) {
  at = put(at, timestamp_);
  at = std::to_chars(at, at + 20, log_.next_seq()).ptr;
  return put(at, "}\n\n");
}

void EventWriter::output(bool is_stderr, std::string_view text) {
  const std::string_view head = is_stderr ? kStderr : kStdout;
  if (text.size() > kShortText) return long_output(head, text);
  char* at = log_.room(kAround + max_json_escaped_size(text.size()));
  at = put(at, head);
  at = write_json_escaped(at, text);
  *at++ = '"';
  log_.commit(finish(at));
}

void EventWriter::long_output(std::string_view head, std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    escaped.clear();
    // Piece by piece, so that the event is filled by what escaping really makes of the text.
    while (!text.empty()) {
      const std::size_t left = (kMaxEventBytes - kAround - escaped.size()) / max_json_escaped_size(1);
      if (left < 8) break;
      const std::size_t take = utf8_prefix(text, std::min(left, kPiece));
      const std::size_t used = escaped.size();
      escaped.resize_and_overwrite(used + max_json_escaped_size(take), [&](char* data, std::size_t) {
        return static_cast<std::size_t>(write_json_escaped(data + used, text.substr(0, take)) - data);
      });
      text.remove_prefix(take);
    }
    char* at = log_.room(kAround + escaped.size());
    at = put(at, head);
    at = put(at, escaped);
    *at++ = '"';
    log_.commit(finish(at));
  }
}

void EventWriter::write(std::string_view fields) {
  char* at = log_.room(kAround + fields.size());
  log_.commit(finish(put(at, fields)));
}

void EventWriter::init(std::string_view id) {
  std::string fields = R"({"type":"init","text":)";
  append_json_string(fields, id);
  write(fields);
}

void EventWriter::init(std::string_view id, std::uint64_t run) {
  std::string fields = R"({"type":"init","text":)";
  append_json_string(fields, id);
  write(concat(fields, R"(,"run":)", run));
}

void EventWriter::complete(std::chrono::milliseconds took) {
  write(R"({"type":"execution_complete")" + execution_time(took));
}

void EventWriter::error(std::string_view name, std::string_view value, std::span<const std::string> traceback,
                        const std::optional<EndReason>& reason) {
  std::string fields = R"({"type":"error","error":{"ename":)";
  append_json_string(fields, name);
  fields += R"(,"evalue":)";
  append_json_string(fields, value);
  fields += R"(,"traceback":[)";
  for (const std::string& line : traceback) {
    if (fields.back() != '[') fields += ',';
    append_json_string(fields, line);
  }
  fields += "]}";
  append_reason(fields, reason);
  write(fields);
}

std::string ping_event(std::int64_t unix_millis) {
  return concat(R"({"type":"ping","text":"pong","timestamp":)", unix_millis, "}\n\n");
}

std::string complete_event(std::int64_t unix_millis, std::chrono::milliseconds took) {
  return concat(R"({"type":"execution_complete")", execution_time(took), R"(,"timestamp":)", unix_millis, "}\n\n");
}

}  // namespace osb::execd
