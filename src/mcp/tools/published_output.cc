#include "mcp/tools/published_output.h"

namespace osb::mcp::tools {
namespace {

using Type = opensandbox::ExecutionEvent::Type;

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

void PublishedOutput::take(const opensandbox::ExecutionEvent& event) {
  switch (event.type) {
    case Type::Stdout:
    case Type::Stderr: {
      call_.output(event.text == "\n" ? "" : event.text);
      // The first line is always kept: a page that holds nothing would never end.
      full_ = full_ || (next_.lines > 0 && (bytes_ + event.text.size() + 1 > max_bytes_ || next_.lines >= kMostLines));
      if (full_) break;
      bytes_ += event.text.size() + 1;
      ++next_.lines;
      next_.seq = event.seq;
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
  out["logs"] = json::object{{"stdout", std::move(stdout_)}, {"stderr", std::move(stderr_)}};
  out["truncated"] = full_;
  out["next_cursor"] = full_ ? or_null(rest(next_).cursor) : json::value(nullptr);
  return out;
}

}  // namespace osb::mcp::tools
