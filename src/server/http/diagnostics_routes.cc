#include "api/lifecycle_diagnostics.h"
#include "base/log.h"
#include "base/text.h"
#include "server/diagnostics/report.h"
#include "server/http/answer.h"
#include "server/http/log_stream.h"
#include "server/http/routes.h"

namespace osb::server {
namespace {

using http::Request;
using http::Response;
using Answer = net::awaitable<Response>;

// The bytes to ask the backend for per line; longer lines make fewer of them.
constexpr std::size_t kBytesPerLine = 1024;
constexpr std::size_t kMostBytes = 4 << 20;

struct Logs {
  std::string text;
  bool truncated = false;
};

// A sandbox that could not be created, or that the backend has lost, has no logs; that is no error.
net::awaitable<Result<Logs>> read_logs(SandboxService& service, std::string id, int tail,
                                       std::optional<std::chrono::seconds> since = std::nullopt) {
  const std::size_t bytes = std::min(static_cast<std::size_t>(tail) * kBytesPerLine, kMostBytes);
  runtime::Logs* logs = service.backend().logs();
  if (logs == nullptr) co_return Logs();
  auto text = co_await logs->tail(id, bytes);
  if (!text && text.error().code == Code::NotFound) co_return Logs();
  if (!text) {
    Error error = text.error();
    error.code = Code::Internal;  // the contract's 500
    error.reason = service.reason("SANDBOX_QUERY_FAILED");
    co_return Failure(std::move(error));
  }
  bool clipped = text->size() >= bytes;
  if (since) {
    std::string recent = lines_since(*text, service.time().now() - *since);
    clipped = clipped && recent.size() == text->size();
    *text = std::move(recent);
  }
  Logs out;
  out.text = last_lines(*text, static_cast<std::size_t>(tail), clipped, out.truncated);
  co_return out;
}

net::awaitable<DiagnosticSubject> look_at(SandboxService& service, const SandboxRecord& record) {
  DiagnosticSubject subject{record, nullptr, std::nullopt, {}};
  if (record.status.state == api::state::kRunning || record.status.state == api::state::kPaused) {
    auto use = co_await service.backend().lifecycle().stats(record.id);
    if (use) {
      subject.use = *use;
    } else {
      log_warn("resource use not known", {{"id", record.id}, {"error", use.error().message}});
    }
  }
  subject.events = service.events().of(record.id);
  subject.instance = service.instance(record.id);  // last: a pointer that the next wait may invalidate
  co_return subject;
}

Response text(std::string body) { return http::text_response(200, std::move(body)); }

Response deprecated(std::string body) {
  Response response = text(std::move(body));
  response.headers.set("Deprecation", "true");
  return response;
}

Answer logs(SandboxService& service, PrincipalPtr who, Request& request) {
  const auto pairs = query_pairs(request);
  const auto query = api::decode_logs_query(pairs);
  if (!query) co_return refusal(query.error());
  const std::string id = request.params["id"];
  const auto record = service.get(id, who->scope());
  if (!record) co_return refusal(record.error());
  auto found = co_await read_logs(service, id, query->tail, query->since);
  if (!found) co_return refusal(found.error());
  if (!query->scope) co_return deprecated(found->text.empty() ? std::string(kNoLogs) + "\n" : found->text);
  api::DiagnosticContent content;
  content.sandbox_id = id;
  content.kind = "logs";
  content.scope = *query->scope;
  content.truncated = found->truncated;
  content.content = std::move(found->text);
  if (content.scope == "all") content.warnings.emplace_back("this backend has logs of scope container only");
  co_return http::json_response(200, api::encode_diagnostic(content));
}

Answer stream_logs(SandboxService& service, PrincipalPtr who, Request& request) {
  const auto pairs = query_pairs(request);
  const auto query = api::decode_log_stream_query(pairs);
  if (!query) co_return refusal(query.error());
  const auto record = service.get(request.params["id"], who->scope());
  if (!record) co_return refusal(record.error());
  runtime::LogsFrom from{.since = std::nullopt, .tail = query->tail, .follow = query->follow};
  if (query->since) from.since = service.time().now() - *query->since;
  co_return log_stream(service, *record, from);
}

Answer events(SandboxService& service, PrincipalPtr who, Request& request) {
  const auto pairs = query_pairs(request);
  const auto query = api::decode_events_query(pairs);
  if (!query) co_return refusal(query.error());
  const auto record = service.get(request.params["id"], who->scope());
  if (!record) co_return refusal(record.error());
  const DiagnosticSubject subject = co_await look_at(service, **record);
  const auto limit = static_cast<std::size_t>(query->limit);
  if (!query->scope) co_return deprecated(events_text(subject, limit));
  api::DiagnosticContent content;
  content.sandbox_id = (*record)->id;
  content.kind = "events";
  content.scope = *query->scope;
  content.content = event_lines(subject, limit, content.truncated);
  if (content.scope == "all") content.warnings.emplace_back("this backend has events of scope runtime only");
  co_return http::json_response(200, api::encode_diagnostic(content));
}

// The names of the sandbox where it runs, so that an operator finds it there.
Answer names_in_backend(SandboxService& service, PrincipalPtr who, Request& request) {
  const auto record = service.get(request.params["id"], who->scope());
  if (!record) co_return refusal(record.error());
  const runtime::Instance* instance = service.instance((*record)->id);
  const std::string backend = lower(service.capabilities().backend);
  co_return http::json_response(
      200, api::encode_diagnostic_context((*record)->id, backend,
                                          instance != nullptr ? instance->identifiers : api::StringMap(),
                                          (*record)->status.state));
}

Answer inspect(SandboxService& service, PrincipalPtr who, Request& request) {
  const auto record = service.get(request.params["id"], who->scope());
  if (!record) co_return refusal(record.error());
  co_return text(inspect_text(co_await look_at(service, **record)));
}

Answer summary(SandboxService& service, PrincipalPtr who, Request& request) {
  const auto pairs = query_pairs(request);
  const auto query = api::decode_summary_query(pairs);
  if (!query) co_return refusal(query.error());
  const std::string id = request.params["id"];
  const auto record = service.get(id, who->scope());
  if (!record) co_return refusal(record.error());
  const auto read = co_await read_logs(service, id, query->tail);
  if (!read) log_warn("logs not read", {{"id", id}, {"error", read.error().message}});
  const DiagnosticSubject subject = co_await look_at(service, **record);
  const std::string_view output = !read                ? "[error] The logs could not be read."
                                  : read->text.empty() ? kNoLogs
                                                       : std::string_view(read->text);
  co_return text(summary_text(id, inspect_text(subject),
                              events_text(subject, static_cast<std::size_t>(query->event_limit)), output));
}

}  // namespace

void add_diagnostics_routes(http::Router& router, RouteContext& context) {
  const auto add = [&](std::string_view what, Action action) {
    add_both(router, context, "GET", "/sandboxes/{id}/diagnostics/" + std::string(what), action);
  };
  add("logs", logs);
  add("logs/stream", stream_logs);
  add("events", events);
  add("context", names_in_backend);
  add("inspect", inspect);
  add("summary", summary);
}

}  // namespace osb::server
