#include "client/event_decoder.h"

#include <charconv>

#include <boost/json/monotonic_resource.hpp>
#include <boost/json/parse.hpp>

#include "client/json.h"

namespace opensandbox {
namespace {

using Type = ExecutionEvent::Type;

Type type_of(std::string_view name) {
  if (name == "stdout") return Type::Stdout;
  if (name == "stderr") return Type::Stderr;
  if (name == "init") return Type::Init;
  if (name == "error") return Type::Error;
  if (name == "execution_complete") return Type::Complete;
  if (name == "result") return Type::Result;
  if (name == "execution_count") return Type::ExecutionCount;
  if (name == "gap") return Type::Gap;
  return Type::Other;
}

std::string plain_line(const std::string& text) { return text == "\n" ? std::string() : text; }

std::string joined(const std::vector<std::string>& lines, bool pieces) {
  std::string out;
  for (const std::string& line : lines) out.append(line).append(pieces ? "" : "\n");
  return out;
}

}  // namespace

void EventDecoder::feed(std::string_view bytes, std::vector<ExecutionEvent>& out) {
  lines_.feed(bytes, [&](std::string_view text) { line(text, out); });
}

void EventDecoder::finish(std::vector<ExecutionEvent>& out) {
  lines_.finish([&](std::string_view text) { line(text, out); });
}

void EventDecoder::line(std::string_view raw, std::vector<ExecutionEvent>& out) const {
  const std::string_view text = event_json(raw);
  if (text.empty()) return;
  unsigned char buffer[4096];  // enough for most events: no allocation
  json::monotonic_resource memory(buffer, sizeof(buffer));
  json::parse_options options;
  options.allow_invalid_utf8 = true;
  boost::system::error_code error;
  const json::value value = json::parse(text, error, &memory, options);
  if (error || !value.is_object()) return;
  const json::object& object = value.get_object();
  const auto* name = object.if_contains("type");
  ExecutionEvent event;
  if (name == nullptr || !name->is_string()) {
    if (!object.contains("code") || !object.contains("message")) return;
    event.type = Type::Error;
    event.error = ExecutionEvent::ErrorInfo{.name = text_of(object, "code"), .value = text_of(object, "message")};
  } else {
    const std::string_view type(name->get_string().data(), name->get_string().size());
    if (type == "ping") return;
    event.type = type_of(type);
    event.text = text_of(object, "text");
  }
  event.timestamp = int_of(object, "timestamp").value_or(0);
  event.seq = static_cast<std::uint64_t>(int_of(object, "seq").value_or(0));
  switch (event.type) {
    case Type::Error:
      if (const auto* info = object_of(object, "error")) {
        event.error = ExecutionEvent::ErrorInfo{.name = text_of(*info, "ename"),
                                                .value = text_of(*info, "evalue"),
                                                .traceback = texts_of(*info, "traceback")};
      } else if (!event.error) {
        event.error = ExecutionEvent::ErrorInfo{};
      }
      event.error->reason = text_of(object, "reason");
      event.error->reason_message = text_of(object, "reason_message");
      break;
    case Type::Complete:
      event.execution_time = std::chrono::milliseconds(int_of(object, "execution_time").value_or(0));
      break;
    case Type::Result:
      if (const auto* results = object_of(object, "results")) event.results = map_of(*results);
      break;
    case Type::ExecutionCount:
      event.execution_count = int_of(object, "execution_count").value_or(0);
      break;
    case Type::Gap:
      event.gap_from = static_cast<std::uint64_t>(int_of(object, "from").value_or(0));
      event.gap_to = static_cast<std::uint64_t>(int_of(object, "to").value_or(0));
      break;
    default:
      break;
  }
  if (keep_json_ || event.type == Type::Other) event.json = text;
  out.push_back(std::move(event));
}

void accumulate(Execution& execution, const ExecutionEvent& event, bool keep_output) {
  if (event.seq > execution.last_seq) execution.last_seq = event.seq;
  switch (event.type) {
    case Type::Init:
      if (execution.id.empty()) execution.id = event.text;
      break;
    case Type::Stdout:
      if (keep_output) execution.stdout_lines.push_back(execution.pieces ? event.text : plain_line(event.text));
      break;
    case Type::Stderr:
      if (keep_output) execution.stderr_lines.push_back(execution.pieces ? event.text : plain_line(event.text));
      break;
    case Type::Result:
      if (keep_output) execution.results.push_back(event.results);
      break;
    case Type::Error:
      execution.error = event.error;
      execution.complete = true;
      break;
    case Type::Complete:
      execution.execution_time = event.execution_time;
      execution.complete = true;
      break;
    case Type::Gap:
      if (event.gap_to > execution.last_seq) execution.last_seq = event.gap_to;
      break;
    default:
      break;
  }
}

std::string Execution::stdout_text() const { return joined(stdout_lines, pieces); }
std::string Execution::stderr_text() const { return joined(stderr_lines, pieces); }

}  // namespace opensandbox
