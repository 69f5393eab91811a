#include "mcp/tools/plain_output.h"

#include <algorithm>

#include <fmt/format.h>

namespace osb::mcp::tools {
namespace {

using Type = opensandbox::ExecutionEvent::Type;

// Begin and end of a text that cannot be paged.
std::string shorten(std::string text, Room room) {
  if (text.size() <= room.bytes && reply_cost(text) <= room.cost) return text;
  const std::size_t head = fitting_lines_prefix(text, room.half());
  const std::size_t tail = std::min(fitting_lines_suffix(text, room.half()), text.size() - head);
  return text.substr(0, head) + gap_note(text.size() - head - tail, 0, "") + text.substr(text.size() - tail);
}

std::string joined(const HeadTail::Part& part, std::string_view advice) {
  if (part.left_out_bytes == 0) return part.head + part.tail;
  return part.head + gap_note(part.left_out_bytes, part.left_out_lines, advice) + part.tail;
}

}  // namespace

void PlainOutput::take(const opensandbox::ExecutionEvent& event) {
  if (begin_ == 0) begin_ = event.timestamp;
  end_ = std::max(end_, event.timestamp);
  switch (event.type) {
    case Type::Stdout:
    case Type::Stderr: {
      // Of a command a line without its end, or "\n"; of code any piece, with its newlines.
      const bool code = what_ == Runs::Code;
      const std::string_view line = !code && event.text == "\n" ? std::string_view() : event.text;
      call_.output(line);
      (event.type == Type::Stderr ? stderr_ : stdout_).append(line, lines_++, event.seq, code ? "" : "\n");
      break;
    }
    case Type::Error:
      take_error(event);
      break;
    case Type::Result:
      take_results(event);
      break;
    case Type::Gap:
      skipped_ += event.gap_to - event.gap_from + 1;
      break;
    case Type::Init:
    case Type::Complete:
    case Type::ExecutionCount:
    case Type::Other:
      break;
  }
}

void PlainOutput::take_error(const opensandbox::ExecutionEvent& event) {
  if (!event.error) return;
  error_ = event.error->name + ": " + event.error->value;
  for (const std::string& line : event.error->traceback) error_.append("\n").append(line);
  error_ = shorten(std::move(error_), room_.half().half());
  room_.cost -= std::min<std::size_t>(room_.cost, reply_cost(error_));
}

void PlainOutput::take_results(const opensandbox::ExecutionEvent& event) {
  for (const auto& [type, value] : event.results) {
    if (type == "text/plain" && event.results.contains("text")) continue;  // the same once more
    if (type != "text" && type != "text/plain") {
      const bool picture = type == "image/png" || type == "image/jpeg";
      if (!picture || !call_.add_picture(type, value)) other_results_[type] = value.size();
      continue;
    }
    std::string text = shorten(value, room_.half().half());
    room_.cost -= std::min<std::size_t>(room_.cost, reply_cost(text) + 8);
    results_.emplace_back(std::move(text));
  }
}

void PlainOutput::encode_output(json::object& out, const Continue& rest) {
  const auto bytes = share(stdout_.bytes(), stderr_.bytes(), room_.bytes);
  const auto cost = share(stdout_.cost(), stderr_.cost(), room_.cost);
  const HeadTail::Part standard = stdout_.fit({bytes.first, cost.first});
  const HeadTail::Part errors = stderr_.fit({bytes.second, cost.second});
  const bool standard_cut = standard.left_out_bytes > 0, errors_cut = errors.left_out_bytes > 0;
  Continuation more;
  if (standard_cut || errors_cut) {
    // Pages hold both streams in order, so they begin where the first of the two was cut.
    more = rest(!errors_cut ? standard.next : !standard_cut ? errors.next : std::min(standard.next, errors.next));
    out["truncated"] = true;
    if (!more.cursor.empty()) out["next_cursor"] = more.cursor;
  }
  out["stdout"] = joined(standard, more.advice);
  out["stderr"] = joined(errors, more.advice);
}

json::object PlainOutput::encode(const opensandbox::Execution& execution, const Continue& rest) {
  json::object out;
  if (execution.exit_code) {
    out["exit_code"] = *execution.exit_code;
  } else if (!error_.empty()) {
    out["error"] = error_;
  }
  if (execution.error) add_reason(out, execution.error->reason, execution.error->reason_message);
  encode_output(out, rest);
  if (!results_.empty()) out["result"] = std::move(results_);
  if (!other_results_.empty()) out["other_results_bytes"] = std::move(other_results_);
  if (skipped_ > 0) out["lost_events"] = skipped_;
  if (execution.complete)
    out["duration_ms"] = execution.execution_time ? execution.execution_time->count() : end_ - begin_;
  // A client that has all of the output does not need the id.
  if (!execution.id.empty() && out.contains("truncated")) out["id"] = execution.id;
  return out;
}

}  // namespace osb::mcp::tools
