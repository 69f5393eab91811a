#include "execd/daemon/code_routes.h"

#include "api/execd_requests.h"
#include "base/json_escape.h"
#include "http/url.h"

namespace osb::execd {
namespace {

constexpr std::size_t kMaxBody = 64 * 1024 * 1024;

std::string to_json(const CodeContext& context) {
  std::string out = R"({"id":)";
  append_json_string(out, context.id);
  out += R"(,"language":)";
  append_json_string(out, context.language);
  if (!context.cwd.empty()) {
    out += R"(,"cwd":)";
    append_json_string(out, context.cwd);
  }
  return out + '}';
}

http::Response code_problem(const Error& error) { return http::problem(error, "RUNTIME_ERROR"); }

http::Response done(const Result<void>& result) {
  return result ? http::empty_response(200) : code_problem(result.error());
}

net::awaitable<http::Response> not_available(http::Request&) {
  co_return http::problem(501, "NOT_SUPPORTED", "the code interpreter is not available here");
}

net::awaitable<http::Response> run(CodeRunner& runner, http::Request& request) {
  auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return code_problem(body.error());
  auto wanted = api::decode_run_code(*body);
  if (!wanted) co_return code_problem(wanted.error());
  co_return co_await runner.run(std::move(wanted->code), std::move(wanted->context_id), std::move(wanted->language));
}

net::awaitable<http::Response> create(CodeRunner& runner, http::Request& request) {
  auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return code_problem(body.error());
  auto wanted = api::decode_create_code_context(*body);
  if (!wanted) co_return code_problem(wanted.error());
  const auto made = co_await runner.create_context(std::move(wanted->language), std::move(wanted->cwd));
  co_return made ? http::json_response(200, to_json(*made)) : code_problem(made.error());
}

net::awaitable<http::Response> list(CodeRunner& runner, http::Request& request) {
  const auto query = http::Query::parse(request.query());
  const auto found = co_await runner.list_contexts(std::string(query.get("language")));
  if (!found) co_return code_problem(found.error());
  std::string json = "[";
  for (const CodeContext& context : *found) json.append(json.size() > 1 ? "," : "").append(to_json(context));
  co_return http::json_response(200, json + "]");
}

net::awaitable<http::Response> find(CodeRunner& runner, http::Request& request) {
  const auto found = co_await runner.find_context(request.params["context_id"]);
  co_return found ? http::json_response(200, to_json(*found)) : code_problem(found.error());
}

net::awaitable<http::Response> remove(CodeRunner& runner, http::Request& request) {
  co_return done(co_await runner.delete_context(request.params["context_id"]));
}

net::awaitable<http::Response> remove_all(CodeRunner& runner, http::Request& request) {
  const auto query = http::Query::parse(request.query());
  const std::string language(query.get("language"));
  if (language.empty()) co_return http::problem(400, "MISSING_QUERY", "language: missing from the query");
  co_return done(co_await runner.delete_contexts(language));
}

}  // namespace

void add_code_routes(http::Router& router, CodeRunner* runner) {
  const auto with_runner = [runner](net::awaitable<http::Response> (*serve)(CodeRunner&, http::Request&)) {
    if (runner == nullptr) return http::Handler(not_available);
    return http::Handler([runner, serve](http::Request& request) { return serve(*runner, request); });
  };
  router.post("/code", with_runner(run));
  router.post("/code/context", with_runner(create));
  router.get("/code/contexts", with_runner(list));
  router.del("/code/contexts", with_runner(remove_all));
  router.get("/code/contexts/{context_id}", with_runner(find));
  router.del("/code/contexts/{context_id}", with_runner(remove));
}

}  // namespace osb::execd
