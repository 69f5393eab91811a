// SandboxManager: an entrypoint's output as it comes.
#include <opensandbox/async.h>

#include "base/base64.h"
#include "base/line_splitter.h"
#include "client/errors.h"
#include "client/event_line.h"
#include "client/json.h"
#include "client/server_call.h"

namespace opensandbox::async {
namespace {

// The decoded lines of one piece of the stream.
struct Batch {
  std::vector<LogOutput> output;
  std::optional<LogEnd> end;
  std::optional<Error> error;
};

void decode_line(std::string_view line, const std::string& request_id, Batch& out) {
  const std::string_view text = event_json(line);
  if (text.empty() || out.end || out.error) return;
  const auto value = parse_answer(text, request_id);
  if (!value || !value->is_object()) return;
  const auto& object = value->get_object();
  const std::string type = text_of(object, "type");
  if (type == "output") {
    LogOutput piece{.time = text_of(object, "time"), .text = text_of(object, "text")};
    if (object.contains("base64")) {
      auto bytes = osb::decode_base64(text_of(object, "base64"));
      if (!bytes) {
        out.error = invalid_response("output that is not base64", request_id).error();
        return;
      }
      piece.text = std::move(*bytes);
    }
    out.output.push_back(std::move(piece));
  } else if (type == "end") {
    LogEnd end{.state = text_of(object, "state"), .reason = text_of(object, "reason")};
    if (const auto code = int_of(object, "exitCode")) end.exit_code = static_cast<int>(*code);
    out.end = std::move(end);
  } else if (type == "error") {
    Error error{.kind = ErrorKind::Api, .code = text_of(object, "code"), .message = text_of(object, "message")};
    error.request_id = request_id;
    if (error.code.empty()) error.code = "UNEXPECTED_RESPONSE";
    out.error = std::move(error);
  }
}

Task<LogEnd> follow(ClientState state, Call call, LogSink sink) {
  auto stream = co_await state->open(state->server, std::move(call));
  if (!stream) co_return Failure(std::move(stream.error()));
  if (!stream->headers.get("Content-Type").starts_with("text/event-stream")) {
    co_return invalid_response("the server sent no stream of events", stream->request_id);
  }
  osb::LineSplitter splitter;
  for (;;) {
    auto piece = co_await stream->body->read();
    if (!piece) co_return from_transport(piece.error());
    if (piece->empty()) co_return network_error("the log ended before its last event");
    Batch batch;
    splitter.feed(*piece, [&](std::string_view line) { decode_line(line, stream->request_id, batch); });
    if (splitter.pending() > kLongestLine) {
      co_return invalid_response("an event is longer than any event may be", stream->request_id);
    }
    if (!batch.output.empty()) {
      auto more = co_await sink(std::span<const LogOutput>(batch.output));
      if (!more) co_return Failure(std::move(more.error()));
      if (!*more) co_return LogEnd{};
    }
    if (batch.error) co_return Failure(std::move(*batch.error));
    if (batch.end) co_return std::move(*batch.end);
  }
}

}  // namespace

Task<LogEnd> SandboxManager::follow_logs(std::string id, LogSink sink, LogOptions options) const {
  if (id.empty()) return failed<LogEnd>(no_id("sandbox id"));
  std::string target = sandbox_target(id, "/diagnostics/logs/stream");
  add_query(target, "follow", options.follow ? "true" : "false");
  if (options.tail) add_query(target, "tail", std::to_string(*options.tail));
  if (!options.since.empty()) add_query(target, "since", options.since);
  Call call{.target = std::move(target)};
  call.headers.add("Accept", "text/event-stream");
  call.endless = true;
  return follow(client_.state(), std::move(call), std::move(sink));
}

}  // namespace opensandbox::async
