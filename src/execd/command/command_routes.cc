#include "execd/command/command_routes.h"

#include <optional>
#include <utility>

#include "base/json_escape.h"
#include "base/parse_number.h"
#include "base/time.h"
#include "execd/run/event_stream.h"
#include "execd/run/event_writer.h"
#include "execd/run/output_log_response.h"
#include "http/url.h"

namespace osb::execd {
namespace {

constexpr std::string_view kBadRequest = "INVALID_REQUEST_BODY";
constexpr std::string_view kRuntimeError = "RUNTIME_ERROR";
constexpr std::string_view kCursorHeader = "EXECD-COMMANDS-TAIL-CURSOR";
constexpr std::string_view kSkippedHeader = "EXECD-COMMANDS-SKIPPED-BYTES";
constexpr std::size_t kMaxBody = 16 * 1024 * 1024;

http::Response unknown_command(int status, std::string_view id) {
  return http::problem(status, kBadRequest, "command " + in_quotes(id) + ": not found");
}

std::string status_json(const Command& command) {
  std::string out = R"({"id":)";
  append_json_string(out, command.id);
  out += R"(,"content":)";
  append_json_string(out, command.content);
  // The shell may have ended while its last output waits for a slow reader.
  const bool running = command.running();
  out += running ? R"(,"running":true)" : R"(,"running":false)";
  if (!running) {
    const Outcome outcome =
        command.outcome ? *command.outcome : outcome_of(command.run->end().status, command.run->end().reason);
    out += R"(,"exit_code":)" + std::to_string(outcome.exit_code);
    if (!outcome.error.empty()) {
      out += R"(,"error":)";
      append_json_string(out, outcome.error);
    }
    append_reason(out, outcome.reason);
  }
  out += R"(,"started_at":")" + format_timestamp_nanos(command.started_at) + '"';
  if (!running) {
    const auto at = command.outcome ? command.finished_at : command.run->end().at;
    out += R"(,"finished_at":")" + format_timestamp_nanos(at) + '"';
  }
  return out + '}';
}

http::Response logs_response(const Command& command, std::int64_t cursor) {
  return output_log_response(command.output.get(), command.output_end, static_cast<std::uint64_t>(cursor),
                             kCursorHeader, kSkippedHeader);
}

net::awaitable<http::Response> run_command(CommandService& service, http::Request& request) {
  const auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return http::problem(body.error(), kBadRequest);
  const auto wanted = api::decode_run_command(*body);
  if (!wanted) co_return http::problem(wanted.error(), kBadRequest);
  const auto command = service.start(*wanted);
  if (!command) {
    const bool refused = command.error().code == Code::InvalidRequest;
    co_return http::problem(command.error(), refused ? kBadRequest : kRuntimeError);
  }
  co_return command_response(**command);
}

}  // namespace

http::Response command_response(const Command& command) {
  if (!command.background || command.events->closed()) {
    return http::event_stream(
        [log = command.events](http::BodyWriter& writer) { return stream_events(log, 0, writer); });
  }
  // The log's own last event comes when the command ends; this stream ends with its start.
  std::string start;
  EventReader reader(command.events, 0, [] {});
  for (const std::string_view event : reader.next()) start += event;
  start += complete_event(unix_millis(), command.spawn_time);
  return http::event_stream([start = std::move(start)](http::BodyWriter& writer) { return writer.write(start); });
}

http::Handler interrupt_handler(std::vector<Interruptible*> all) {
  return [all = std::move(all)](http::Request& request) -> net::awaitable<http::Response> {
    const std::string id(http::Query::parse(request.query()).get("id"));
    if (id.empty()) co_return http::problem(400, "MISSING_QUERY", "query parameter id is required");
    for (Interruptible* candidate : all) {
      const auto done = co_await candidate->interrupt(id);
      if (!done) continue;
      if (!*done) co_return http::problem(500, kRuntimeError, done->error().message);
      co_return http::empty_response();
    }
    co_return http::problem(500, kRuntimeError, "nothing with the id " + in_quotes(id) + " is running");
  };
}

void add_command_routes(http::Router& router, CommandService& service, std::vector<Interruptible*> others) {
  router.post("/command", [&service](http::Request& request) { return run_command(service, request); });

  others.insert(others.begin(), &service);
  router.del("/command", interrupt_handler(std::move(others)));

  router.get("/command/status/{id}", [&service](http::Request& request) -> net::awaitable<http::Response> {
    const auto command = service.find(request.params["id"]);
    if (!command) co_return unknown_command(404, request.params["id"]);
    co_return http::json_response(200, status_json(*command));
  });

  router.get("/command/{id}/logs", [&service](http::Request& request) -> net::awaitable<http::Response> {
    const auto command = service.find(request.params["id"]);
    if (!command) co_return unknown_command(400, request.params["id"]);
    if (!command->background) {
      co_return http::problem(400, kBadRequest, "command " + command->id + " does not run in the background");
    }
    const std::int64_t cursor =
        parse_number<std::int64_t>(http::Query::parse(request.query()).get("cursor")).value_or(0);
    if (cursor < 0) co_return http::problem(400, kBadRequest, "cursor must not be negative");
    co_return logs_response(*command, cursor);
  });

  router.get("/command/{id}/events", [&service](http::Request& request) -> net::awaitable<http::Response> {
    const auto command = service.find(request.params["id"]);
    if (!command) co_return unknown_command(404, request.params["id"]);
    const http::Query query = http::Query::parse(request.query());
    const std::int64_t after =
        query.get("after").empty() ? 0 : parse_number<std::int64_t>(query.get("after")).value_or(-1);
    if (after < 0 || static_cast<std::uint64_t>(after) > command->events->last_seq()) {
      co_return http::problem(400, kBadRequest,
                              "after must be a number from 0 to " + std::to_string(command->events->last_seq()));
    }
    co_return http::event_stream([log = command->events, after](http::BodyWriter& writer) {
      return stream_events(log, static_cast<std::uint64_t>(after), writer);
    });
  });
}

}  // namespace osb::execd
