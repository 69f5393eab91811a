#include "execd/code/code_routes.h"

#include <optional>
#include <utility>

#include "base/concat.h"
#include "base/json_escape.h"
#include "base/parse_number.h"
#include "execd/run/event_stream.h"
#include "http/url.h"

namespace osb::execd {
namespace {

constexpr std::size_t kMaxBody = 64 * 1024 * 1024;

std::string to_json(const CodeContext& context) {
  std::string out = R"({"id":)";
  append_json_string(out, context.id());
  out += R"(,"language":)";
  append_json_string(out, context.language());
  if (!context.cwd().empty()) {
    out += R"(,"cwd":)";
    append_json_string(out, context.cwd());
  }
  return out + '}';
}

http::Response code_problem(const Error& error) {
  const bool refused = error.code == Code::InvalidRequest || error.code == Code::TooLarge;
  return http::problem(error, refused ? "INVALID_REQUEST_BODY" : "RUNTIME_ERROR");
}

http::Response not_found(std::string_view id) {
  return http::problem(404, "CONTEXT_NOT_FOUND", concat("context ", in_quotes(id), ": not found"));
}

http::Response stream(std::shared_ptr<EventLog> log, std::uint64_t after) {
  return http::event_stream(
      [log = std::move(log), after](http::BodyWriter& writer) { return stream_events(log, after, writer); });
}

// Where the contract sends code that is no runner's: no language at all, and the two names for commands.
bool is_command(const api::RunCode& wanted) {
  if (wanted.language.empty()) return wanted.context_id.empty();
  return wanted.language == "command" || wanted.language == "background-command";
}

net::awaitable<http::Response> run(CodeService& service, const CommandRunner& run_command, http::Request& request) {
  auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return code_problem(body.error());
  auto wanted = api::decode_run_code(*body);
  if (!wanted) co_return code_problem(wanted.error());
  body->clear();
  if (is_command(*wanted)) {
    if (wanted->code.find('\0') != std::string::npos) {
      co_return http::problem(400, "INVALID_REQUEST_BODY", "/code: must not contain a NUL byte");
    }
    api::RunCommand command;
    command.command = std::move(wanted->code);
    command.background = wanted->language == "background-command";
    command.timeout = wanted->timeout;
    auto started = run_command(command);
    co_return started ? std::move(*started) : code_problem(started.error());
  }
  const auto cell = service.run(*wanted);
  if (!cell) co_return code_problem(cell.error());
  co_return stream((*cell)->log(), 0);
}

net::awaitable<http::Response> create(CodeService& service, http::Request& request) {
  auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return code_problem(body.error());
  auto wanted = api::decode_create_code_context(*body);
  if (!wanted) co_return code_problem(wanted.error());
  const auto made = co_await service.create(std::move(*wanted));
  co_return made ? http::json_response(200, to_json(**made)) : code_problem(made.error());
}

net::awaitable<http::Response> list(CodeService& service, http::Request& request) {
  const std::string language(http::Query::parse(request.query()).get("language"));
  if (language == "command" || language == "background-command" || language == "sql") {
    co_return http::problem(500, "RUNTIME_ERROR", concat("language ", language, " has no contexts"));
  }
  std::string json = "[";
  for (const auto& context : service.list(language)) json.append(json.size() > 1 ? "," : "").append(to_json(*context));
  co_return http::json_response(200, json + "]");
}

net::awaitable<http::Response> find(CodeService& service, http::Request& request) {
  const auto found = service.find(request.params["context_id"]);
  co_return found ? http::json_response(200, to_json(*found)) : not_found(request.params["context_id"]);
}

net::awaitable<http::Response> remove(CodeService& service, http::Request& request) {
  const std::string id = request.params["context_id"];
  co_return co_await service.remove(id) ? http::empty_response() : not_found(id);
}

net::awaitable<http::Response> remove_all(CodeService& service, http::Request& request) {
  const std::string language(http::Query::parse(request.query()).get("language"));
  if (language.empty()) co_return http::problem(400, "MISSING_QUERY", "language: missing from the query");
  co_await service.remove_all(language);
  co_return http::empty_response();
}

// The number of a query parameter; nothing if it is there and not a number of at most `max`.
std::optional<std::uint64_t> number(std::string_view text, std::uint64_t absent, std::uint64_t max) {
  if (text.empty()) return absent;
  const auto value = parse_number<std::uint64_t>(text);
  return value && *value <= max ? value : std::nullopt;
}

net::awaitable<http::Response> events(CodeService& service, http::Request& request) {
  const auto context = service.find(request.params["context_id"]);
  if (!context) co_return not_found(request.params["context_id"]);
  const auto cell = context->newest();
  if (!cell) co_return http::problem(404, "CONTEXT_NOT_FOUND", "no code has run in this context");
  const http::Query query = http::Query::parse(request.query());
  const auto run = number(query.get("run"), cell->number(), cell->number());
  if (run != cell->number()) {
    co_return http::problem(404, "CONTEXT_NOT_FOUND", concat("only the events of run ", cell->number(), " are kept"));
  }
  const auto after = number(query.get("after"), 0, cell->log()->last_seq());
  if (!after) {
    co_return http::problem(400, "INVALID_REQUEST_BODY",
                            concat("after must be a number from 0 to ", cell->log()->last_seq()));
  }
  co_return stream(cell->log(), *after);
}

}  // namespace

void add_code_routes(http::Router& router, CodeService& service, CommandRunner run_command) {
  const auto with_service = [&service](net::awaitable<http::Response> (*serve)(CodeService&, http::Request&)) {
    return http::Handler([&service, serve](http::Request& request) { return serve(service, request); });
  };
  router.post("/code", [&service, run_command = std::move(run_command)](http::Request& request) {
    return run(service, run_command, request);
  });
  router.post("/code/context", with_service(create));
  router.get("/code/contexts", with_service(list));
  router.del("/code/contexts", with_service(remove_all));
  router.get("/code/contexts/{context_id}", with_service(find));
  router.del("/code/contexts/{context_id}", with_service(remove));
  router.get("/code/contexts/{context_id}/events", with_service(events));
}

}  // namespace osb::execd
