#include "mcp/tools/execution.h"

#include "base/log.h"
#include "mcp/schema.h"

namespace osb::mcp::tools {
namespace {

using Type = opensandbox::ExecutionEvent::Type;

net::awaitable<opensandbox::Result<void>> take_all(OutputCollector& collector,
                                                   std::span<const opensandbox::ExecutionEvent> events) {
  for (const auto& event : events) collector.take(event);
  co_return opensandbox::Result<void>();
}

net::awaitable<void> interrupt(sdk::Sandbox sandbox, Runs what, std::string id) {
  auto done = what == Runs::Command ? co_await sandbox.commands().interrupt(id) : co_await sandbox.code().interrupt(id);
  // 404: it has ended by itself.
  if (!done && !done.error().not_found()) {
    log_warn("what a cancelled call runs could not be interrupted", {{"id", id}, {"error", done.error().to_string()}});
  }
}

net::awaitable<opensandbox::Result<void>> take_interruptible(OutputCollector& collector, Call& call,
                                                             sdk::Sandbox sandbox, Runs what,
                                                             std::span<const opensandbox::ExecutionEvent> events) {
  for (const auto& event : events) {
    collector.take(event);
    if (event.type != Type::Init) continue;
    call.on_cancel([errand = call.errand(), sandbox, what, id = event.text] { errand(interrupt(sandbox, what, id)); });
  }
  co_return opensandbox::Result<void>();
}

json::value result_of(const opensandbox::ExecutionEvent& event) {
  json::object extra;
  json::value text = nullptr;
  for (const auto& [type, value] : event.results) {
    if (type == "text" || type == "text/plain")
      text = value;
    else
      extra[type] = value;
  }
  return json::object{{"text", text}, {"timestamp", event.timestamp}, {"extra_properties", std::move(extra)}};
}

}  // namespace

void OutputCollector::take(const opensandbox::ExecutionEvent& event) {
  switch (event.type) {
    case Type::Init:
      id_ = event.text;
      break;
    case Type::Stdout:
    case Type::Stderr: {
      call_.output(event.text == "\n" ? "" : event.text);
      // The first line is always kept: a page that holds nothing would never end.
      full_ = full_ || (lines_ > 0 && (bytes_ + event.text.size() + 1 > max_bytes_ || lines_ >= kMostLines));
      if (full_ && overflow_) overflow_(event);
      if (full_) break;
      bytes_ += event.text.size() + 1;
      ++lines_;
      last_seq_ = event.seq;
      const bool is_error = event.type == Type::Stderr;
      (is_error ? stderr_ : stdout_)
          .push_back(json::object{{"text", event.text}, {"timestamp", event.timestamp}, {"is_error", is_error}});
      break;
    }
    case Type::Result:
      results_.push_back(result_of(event));
      break;
    case Type::ExecutionCount:
      execution_count_ = event.execution_count;
      break;
    case Type::Error: {
      if (!event.error) break;
      json::array traceback;
      for (const std::string& line : event.error->traceback) traceback.emplace_back(line);
      error_ = json::object{{"name", event.error->name},
                            {"value", event.error->value},
                            {"timestamp", event.timestamp},
                            {"traceback", std::move(traceback)}};
      break;
    }
    case Type::Complete:
      complete_ =
          json::object{{"timestamp", event.timestamp}, {"execution_time_in_millis", event.execution_time.count()}};
      break;
    case Type::Gap:
      skipped_ += event.gap_to - event.gap_from + 1;
      break;
    case Type::Other:
      break;
  }
}

json::value OutputCollector::next_cursor() const {
  // Sandboxes that do not number their events cannot be asked for the rest.
  return full_ && last_seq_ > 0 ? json::value(std::to_string(last_seq_)) : json::value(nullptr);
}

json::object OutputCollector::logs() const { return {{"stdout", stdout_}, {"stderr", stderr_}}; }

json::object OutputCollector::encode(const opensandbox::Execution& execution) const {
  json::object out{{"id", or_null(execution.id)},
                   {"execution_count", execution_count_},
                   {"result", results_},
                   {"error", error_},
                   {"complete", complete_}};
  out["exit_code"] = execution.exit_code ? json::value(*execution.exit_code) : json::value(nullptr);
  out["logs"] = logs();
  out["truncated"] = full_;
  out["next_cursor"] = next_cursor();
  return out;
}

sdk::EventSink collect_into(OutputCollector& collector) {
  return [&collector](std::span<const opensandbox::ExecutionEvent> events) { return take_all(collector, events); };
}

sdk::EventSink interruptible(OutputCollector& collector, Call& call, sdk::Sandbox sandbox, Runs what) {
  return [&collector, &call, sandbox, what](std::span<const opensandbox::ExecutionEvent> events) {
    return take_interruptible(collector, call, sandbox, what, events);
  };
}

json::object max_output_argument() {
  return schema::with_default(
      schema::at_most(schema::at_least(schema::integer("Most bytes of output to return; the rest is kept in the "
                                                       "sandbox, see next_cursor and command_output."),
                                       1),
                      OutputCollector::kMostBytes),
      OutputCollector::kDefaultBytes);
}

json::object timeout_argument() {
  return schema::nullable(
      schema::at_least(schema::number("Kill the command after so many seconds. Default: no limit."), 0));
}

json::object logs_schema() {
  const json::object lines = schema::list_of(
      schema::object({{"text", schema::string("One line without its end.")},
                      {"timestamp", schema::integer("Unix time in milliseconds.")},
                      {"is_error", schema::with_default(schema::boolean("It came from stderr."), false)}}),
      "");
  return schema::object({{"stdout", lines}, {"stderr", lines}});
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
