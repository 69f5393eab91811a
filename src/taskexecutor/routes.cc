#include "taskexecutor/routes.h"

#include <memory>

#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "base/parse_number.h"
#include "http/router.h"
#include "http/url.h"

namespace osb::taskexecutor {

namespace json = api::json;

namespace {

constexpr std::size_t kMaxBody = 4 << 20;
// Below the 30 s after which the original ends an answer.
constexpr std::chrono::seconds kLongestPoll{25};

// The code is the status' own text, as the original has it.
http::Response problem(int status, const std::string& message) {
  return http::problem(status, http::reason_phrase(status), message);
}

http::Response listed(const Tasks& tasks) {
  auto response = http::json_response(200, json::serialize(api::to_json(tasks.list())));
  response.headers.set(api::kTasksVersionHeader, std::to_string(tasks.version()));
  return response;
}

// The body as JSON. The rest after the first value is ignored, as the original decoder does it.
net::awaitable<Result<json::value>> read_json(http::Request& request) {
  const auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return Failure(body.error());
  co_return api::parse_json(*body, {.ignore_trailing = true});
}

net::awaitable<http::Response> set_tasks(Tasks& tasks, http::Request& request) {
  const auto body = co_await read_json(request);
  if (!body) co_return problem(400, body.error().message);
  auto wanted = api::parse_tasks(*body);
  if (!wanted) co_return problem(400, wanted.error().message);
  const auto done = co_await tasks.set(std::move(*wanted));
  if (!done) co_return problem(500, done.error().message);
  co_return listed(tasks);
}

net::awaitable<http::Response> get_tasks(Tasks& tasks, http::Request& request) {
  const auto query = http::Query::parse(request.query());
  if (const auto after = parse_number<std::uint64_t>(query.get("after"))) {
    co_await tasks.wait_change(*after, kLongestPoll);
  }
  co_return listed(tasks);
}

net::awaitable<http::Response> add_task(Tasks& tasks, http::Request& request) {
  const auto body = co_await read_json(request);
  if (!body) co_return problem(400, body.error().message);
  auto task = api::parse_task(*body);
  if (!task) co_return problem(400, task.error().message);
  if (task->name.empty()) co_return problem(400, "task name is required");
  const auto made = co_await tasks.add(std::move(*task));
  if (!made) co_return problem(500, made.error().message);
  co_return http::json_response(201, json::serialize(api::to_json(*made)));
}

net::awaitable<http::Response> get_task(Tasks& tasks, http::Request& request) {
  const auto task = tasks.find(request.params["name"]);
  if (!task) co_return problem(404, "task not found");
  co_return http::json_response(200, json::serialize(api::to_json(*task)));
}

net::awaitable<http::Response> remove_task(Tasks& tasks, http::Request& request) {
  const auto done = co_await tasks.remove(request.params["name"]);
  if (!done) co_return problem(500, done.error().message);
  co_return http::empty_response(204);
}

net::awaitable<http::Response> health(http::Request&) { co_return http::json_response(200, R"({"status":"healthy"})"); }

}  // namespace

http::Handler make_handler(Tasks& tasks) {
  const auto router = std::make_shared<http::Router>();
  const auto with = [&tasks](auto handler) {
    return [&tasks, handler](http::Request& request) { return handler(tasks, request); };
  };
  router->post("/setTasks", with(set_tasks));
  router->get("/getTasks", with(get_tasks));
  router->post("/tasks", with(add_task));
  router->get("/tasks/{name}", with(get_task));
  router->del("/tasks/{name}", with(remove_task));
  router->get("/health", health);
  return [router](http::Request& request) -> net::awaitable<http::Response> {
    http::Response response = co_await router->dispatch(request);
    // Where no route took the request the original answers with plain text.
    if (!request.route.empty()) co_return response;
    auto plain = http::text_response(response.status, response.status == 404   ? "404 page not found\n"
                                                      : response.status == 405 ? "Method not allowed\n"
                                                                               : "Bad request\n");
    if (const auto allow = response.headers.get("Allow"); !allow.empty())
      plain.headers.set("Allow", std::string(allow));
    co_return plain;
  };
}

}  // namespace osb::taskexecutor
