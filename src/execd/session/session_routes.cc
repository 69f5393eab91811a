#include "execd/session/session_routes.h"

#include <utility>

#include "base/json_escape.h"

namespace osb::execd {
namespace {

constexpr std::string_view kBadRequest = "INVALID_REQUEST_BODY";
constexpr std::string_view kRuntimeError = "RUNTIME_ERROR";
constexpr std::size_t kMaxBody = 16 * 1024 * 1024;

http::Response session_problem(const Error& error) {
  if (error.code == Code::InvalidRequest || error.code == Code::TooLarge) return http::problem(error, kBadRequest);
  return http::problem(error.code == Code::Unavailable ? 503 : 500, kRuntimeError, error.message);
}

net::awaitable<http::Response> create_session(SessionService& service, http::Request& request) {
  const auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return session_problem(body.error());
  const auto wanted = api::decode_create_session(*body);
  if (!wanted) co_return session_problem(wanted.error());
  const auto id = service.create(*wanted);
  if (!id) co_return session_problem(id.error());
  co_return http::json_response(200, R"({"session_id":")" + *id + R"("})");
}

net::awaitable<http::Response> run_in_session(SessionService& service, http::Request& request) {
  const auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return session_problem(body.error());
  const auto wanted = api::decode_run_in_session(*body);
  if (!wanted) co_return session_problem(wanted.error());
  auto session = service.find(request.params["id"]);
  if (!session) {
    co_return http::problem(500, kRuntimeError, "session " + in_quotes(request.params["id"]) + ": not found");
  }
  auto checked = service.check(*wanted);
  if (!checked) co_return session_problem(checked.error());
  co_return http::event_stream(
      [&service, session = std::move(session), run = std::move(*checked)](http::BodyWriter& writer) mutable {
        return service.run(std::move(session), std::move(run), writer);
      });
}

}  // namespace

void add_session_routes(http::Router& router, SessionService& service) {
  router.post("/session", [&service](http::Request& request) { return create_session(service, request); });
  router.post("/session/{id}/run", [&service](http::Request& request) { return run_in_session(service, request); });
  router.del("/session/{id}", [&service](http::Request& request) -> net::awaitable<http::Response> {
    const std::string id = request.params["id"];
    if (!co_await service.remove(id)) {
      co_return http::problem(404, "CONTEXT_NOT_FOUND", "session " + in_quotes(id) + ": not found");
    }
    co_return http::empty_response();
  });
}

}  // namespace osb::execd
