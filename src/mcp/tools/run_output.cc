#include "mcp/tools/run_output.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "base/log.h"
#include "mcp/schema.h"
#include "mcp/tools/plain_output.h"
#include "mcp/tools/published_output.h"

namespace osb::mcp::tools {
namespace {

using Type = opensandbox::ExecutionEvent::Type;

constexpr std::int64_t kDefaultBytes = 16'384;
constexpr std::int64_t kDefaultPublishedBytes = 65'536;
constexpr std::int64_t kMostBytes = 4'194'304;
constexpr std::size_t kOtherFields = 1536;  // of a result, encoded: ids, codes, cursors, two notes

net::awaitable<opensandbox::Result<void>> take_all(RunOutput& output,
                                                   std::span<const opensandbox::ExecutionEvent> events) {
  for (const auto& event : events) output.take(event);
  co_return opensandbox::Result<void>();
}

net::awaitable<void> interrupt(sdk::Sandbox sandbox, Runs what, std::string id) {
  auto done = what == Runs::Command ? co_await sandbox.commands().interrupt(id) : co_await sandbox.code().interrupt(id);
  // 404: it has ended by itself.
  if (!done && !done.error().not_found()) {
    log_warn("the run of a cancelled call could not be interrupted", {{"id", id}, {"error", done.error().to_string()}});
  }
}

net::awaitable<opensandbox::Result<void>> take_interruptible(RunOutput& output, Call& call, sdk::Sandbox sandbox,
                                                             Runs what,
                                                             std::span<const opensandbox::ExecutionEvent> events) {
  for (const auto& event : events) {
    output.take(event);
    if (event.type != Type::Init) continue;
    call.on_cancel([errand = call.errand(), sandbox, what, id = event.text] { errand(interrupt(sandbox, what, id)); });
  }
  co_return opensandbox::Result<void>();
}

json::object logs_schema() {
  const json::object lines = schema::list_of(
      schema::object({{"text", schema::string("One line without its end.")},
                      {"timestamp", schema::integer("Unix time in milliseconds.")},
                      {"is_error", schema::with_default(schema::boolean("It came from stderr."), false)}}),
      "");
  return schema::object({{"stdout", lines}, {"stderr", lines}});
}

}  // namespace

std::unique_ptr<RunOutput> make_run_output(Call& call, Runs what) {
  if (call.published()) return std::make_unique<PublishedOutput>(call);
  return std::make_unique<PlainOutput>(call, what, output_room(call));
}

sdk::EventSink collect_into(RunOutput& output) {
  return [&output](std::span<const opensandbox::ExecutionEvent> events) { return take_all(output, events); };
}

sdk::EventSink interruptible(RunOutput& output, Call& call, sdk::Sandbox sandbox, Runs what) {
  return [&output, &call, sandbox, what](std::span<const opensandbox::ExecutionEvent> events) {
    return take_interruptible(output, call, sandbox, what, events);
  };
}

opensandbox::Failure page_is_full() {
  opensandbox::Error enough;
  enough.kind = opensandbox::ErrorKind::Cancelled;
  enough.code = "CANCELLED";
  return opensandbox::Failure(std::move(enough));
}

std::size_t max_output_bytes(const Call& call) {
  const std::int64_t* given = call.argument("max_output_bytes").if_int64();
  return static_cast<std::size_t>(given != nullptr   ? *given
                                  : call.published() ? kDefaultPublishedBytes
                                                     : kDefaultBytes);
}

Room output_room(const Call& call) {
  const std::size_t cost = call.reply_bytes() - std::min(call.reply_bytes() / 2, kOtherFields);
  // At least one character: a page that holds nothing would never end.
  return {std::clamp<std::size_t>(max_output_bytes(call), 4, cost), cost};
}

std::string gap_note(std::uint64_t bytes, std::uint64_t lines, std::string_view advice) {
  std::string out = fmt::format("\n[... {} bytes", bytes);
  if (lines > 0) out += fmt::format(" ({} lines)", lines);
  out += " left out";
  if (!advice.empty()) out.append(": ").append(advice);
  return out + " ...]\n";
}

bool PlainPage::take(std::string_view line, bool is_error, std::uint64_t seq) {
  if (full_) return false;
  const std::size_t offset = std::min(next_.offset, line.size());
  const std::string_view text = line.substr(offset);
  std::string& to = is_error ? stderr_ : stdout_;
  const std::size_t fits = fitting_prefix(text, room_);
  const std::size_t cost = reply_cost(text.substr(0, fits)) + reply_cost("\n");
  full_ = fits < text.size() || fits + 1 > room_.bytes || cost > room_.cost;
  // A page ends with a whole line, unless that line is all it has.
  if (full_ && !empty_) return false;
  to.append(text.substr(0, fits));
  empty_ = false;
  if (fits < text.size()) {
    next_ = {next_.lines, seq > 0 ? seq - 1 : 0, offset + fits};
    return false;
  }
  to += '\n';
  next_ = {next_.lines + 1, seq, 0};
  room_.bytes -= std::min(room_.bytes, fits + 1);
  room_.cost -= std::min(room_.cost, cost);
  return !full_;
}

void PlainPage::encode_into(json::object& out) {
  out["stdout"] = stdout_;
  out["stderr"] = stderr_;
}

json::object max_output_argument() {
  return schema::nullable(schema::at_most(
      schema::at_least(schema::integer("Most bytes of output to return. Default 16384."), 1), kMostBytes));
}

json::object timeout_argument() {
  return schema::nullable(schema::at_least(schema::number("Kill it after this many seconds. Default: never."), 0));
}

json::object output_page_schema(json::object id) {
  return schema::object({{"id", std::move(id)},
                         {"logs", logs_schema()},
                         {"truncated", schema::boolean("There is more.")},
                         {"next_cursor", schema::nullable(schema::string("null: this was the last page."))},
                         {"skipped_events", schema::integer("Events that are gone.")}});
}

json::object execution_schema() {
  const json::object text = schema::string("");
  const json::object integer = schema::integer("");
  return schema::object({
      {"id", schema::nullable(schema::string("For command_status, command_logs, command_output, command_interrupt."))},
      {"execution_count", schema::nullable(integer)},
      {"result", schema::list_of(schema::object({{"text", schema::nullable(text)},
                                                 {"timestamp", integer},
                                                 {"extra_properties", schema::string_map("")}}),
                                 "")},
      {"error", schema::nullable(schema::object({{"name", text},
                                                 {"value", schema::string("For commands the exit code.")},
                                                 {"timestamp", integer},
                                                 {"traceback", schema::string_list("")}}))},
      {"complete", schema::nullable(schema::object({{"timestamp", integer}, {"execution_time_in_millis", integer}}))},
      {"exit_code", schema::nullable(schema::integer("null for background runs."))},
      {"logs", logs_schema()},
      {"truncated", schema::boolean("There was more output than was asked for.")},
      {"next_cursor", schema::nullable(schema::string("Where command_output, or session_output, goes on."))},
  });
}

}  // namespace osb::mcp::tools
