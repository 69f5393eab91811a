#include "mcp/tools/published_output.h"

#include <algorithm>

namespace osb::mcp::tools {
namespace {

using Type = opensandbox::ExecutionEvent::Type;

constexpr std::size_t kLineCosts = 90;  // besides its text

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

PublishedOutput::PublishedOutput(Call& call, OutputPosition from)
    : call_(call), room_{max_output_bytes(call), call.reply_bytes()}, next_(from) {}

bool PublishedOutput::add(std::string_view text, std::int64_t timestamp, bool is_error, std::uint64_t seq) {
  if (full_) return false;
  const std::size_t offset = std::min(next_.offset, text.size());
  text.remove_prefix(offset);
  const std::uint64_t cost = kLineCosts + reply_cost(text);
  // The first line is always there, at least its begin: a page that holds nothing would never end.
  full_ = !empty_ && (text.size() + 1 > room_.bytes || cost > room_.cost);
  if (full_) return false;
  empty_ = false;
  const std::size_t fits =
      cost > room_.cost ? fitting_prefix(text, {text.size(), room_.cost - kLineCosts}) : text.size();
  (is_error ? stderr_ : stdout_)
      .push_back(json::object{{"text", text.substr(0, fits)}, {"timestamp", timestamp}, {"is_error", is_error}});
  full_ = fits < text.size();
  if (full_) {
    next_ = {next_.lines, seq > 0 ? seq - 1 : 0, offset + fits};
    return false;
  }
  next_ = {next_.lines + 1, seq, 0};
  room_.bytes -= std::min(room_.bytes, text.size() + 1);
  room_.cost -= std::min<std::size_t>(room_.cost, cost);
  return true;
}

void PublishedOutput::take(const opensandbox::ExecutionEvent& event) {
  switch (event.type) {
    case Type::Stdout:
    case Type::Stderr:
      call_.output(event.text == "\n" ? "" : event.text);
      add(event.text, event.timestamp, event.type == Type::Stderr, event.seq);
      break;
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
    case Type::Init:
    case Type::Other:
      break;
  }
}

json::object PublishedOutput::logs() const { return {{"stdout", stdout_}, {"stderr", stderr_}}; }

json::object PublishedOutput::encode(const opensandbox::Execution& execution, const Continue& rest) {
  json::object out{{"id", or_null(execution.id)},
                   {"execution_count", execution_count_},
                   {"result", std::move(results_)},
                   {"error", std::move(error_)},
                   {"complete", std::move(complete_)}};
  out["exit_code"] = execution.exit_code ? json::value(*execution.exit_code) : json::value(nullptr);
  if (execution.error) add_reason(out, execution.error->reason, execution.error->reason_message);
  out["logs"] = json::object{{"stdout", std::move(stdout_)}, {"stderr", std::move(stderr_)}};
  out["truncated"] = full_;
  out["next_cursor"] = full_ ? or_null(rest(next_).cursor) : json::value(nullptr);
  return out;
}

}  // namespace osb::mcp::tools
