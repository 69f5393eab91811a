#include <sys/socket.h>

#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "async/race.h"
#include "base/parse_number.h"
#include "base/timed_log.h"
#include "http/url.h"
#include "sandboxd/daemon/routes.h"
#include "sys/send_descriptor.h"
#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

namespace json = boost::json;
using namespace race;

constexpr std::size_t kMaxBody = 4 << 20;
constexpr std::size_t kMaxLog = 16 << 20;
constexpr std::size_t kMaxTail = 1'000'000'000;
constexpr const char* kDefaultCode = "NATIVE::ERROR";

http::Response answer(int status, const json::value& value) {
  return http::json_response(status, json::serialize(value));
}

http::Response refuse(const Error& error) { return http::problem(error, kDefaultCode); }

http::Response done(const Result<void>& result) { return result ? http::empty_response(204) : refuse(result.error()); }

// One JSON document a line: everything that is there first, then what changes. The watcher exists before the list is
// made, so nothing falls in between.
net::awaitable<Result<void>> send_events(HostSandboxes& sandboxes, http::BodyWriter& out) {
  const auto watcher = sandboxes.watch();
  json::array all;
  for (const auto& sandbox : sandboxes.list()) all.push_back(api::native::encode(sandbox));
  std::string text = json::serialize(json::object{{"type", "all"}, {"sandboxes", std::move(all)}}) + "\n";
  for (;;) {
    if (auto sent = co_await out.write(text); !sent) co_return sent;
    auto outcome = co_await (watcher->next() || out.peer_closed());
    if (outcome.index() == 1) co_return Result<void>();
    text.clear();
    for (const auto& [id, failure] : std::get<0>(outcome)) {
      const auto sandbox = sandboxes.inspect(id);
      json::object line{{"type", sandbox ? "changed" : "removed"}};
      if (sandbox) {
        line["sandbox"] = api::native::encode(*sandbox);
      } else {
        line["id"] = id;
        if (failure) {
          line["reason"] = failure->reason;
          line["message"] = failure->message;
        }
      }
      text += json::serialize(line) + "\n";
    }
    if (text.empty()) co_return Result<void>();
  }
}

http::Response stream_of_lines(std::move_only_function<net::awaitable<Result<void>>(http::BodyWriter&)> produce) {
  http::Response response;
  response.headers.set("Content-Type", "application/x-ndjson");
  response.body = http::StreamBody{std::move(produce), std::nullopt};
  return response;
}

// The socket goes to the other side as a descriptor.
net::awaitable<void> hand_over(http::Transport& transport, UniqueFd socket) {
  (void)sys::send_descriptor(transport.native_fd(), socket.get());
  transport.shutdown_write();
  co_return;
}

net::awaitable<http::Response> create(HostSandboxes& sandboxes, http::Request& request) {
  auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return refuse(body.error());
  auto value = api::parse_json(*body);
  if (!value) co_return refuse(value.error());
  auto spec = api::native::decode_create_sandbox(*value);
  if (!spec) co_return refuse(spec.error());
  auto made = co_await sandboxes.create(std::move(*spec));
  co_return made ? answer(201, api::native::encode(*made)) : refuse(made.error());
}

net::awaitable<http::Response> connect(HostSandboxes& sandboxes, http::Request& request) {
  const std::uint16_t port = parse_number<std::uint16_t>(request.params["port"]).value_or(0);
  if (port == 0) co_return http::problem(400, kDefaultCode, "port: expected 1 to 65535");
  auto socket = co_await sandboxes.connect(request.params["id"], port);
  if (!socket) co_return refuse(socket.error());
  http::Response response;
  response.status = 101;
  response.headers.set("Upgrade", "opensandbox-socket");
  response.headers.set("Connection", "Upgrade");
  response.body = http::UpgradeHandler([fd = std::move(*socket)](http::Transport& transport, std::string) mutable {
    return hand_over(transport, std::move(fd));
  });
  co_return response;
}

Result<std::size_t> number_in(const http::Query& query, std::string_view name, std::size_t otherwise,
                              std::size_t most) {
  const std::string* text = query.find(name);
  if (text == nullptr) return otherwise;
  if (const auto number = parse_number<std::size_t>(*text); number && *number <= most) return *number;
  return fail(Code::InvalidRequest, std::string(name) + ": expected a number up to " + std::to_string(most));
}

net::awaitable<http::Response> logs(HostSandboxes& sandboxes, http::Request& request) {
  const http::Query query = http::Query::parse(request.query());
  const auto bytes = number_in(query, "bytes", 1 << 20, kMaxLog);
  if (!bytes) co_return refuse(bytes.error());
  const auto times = number_in(query, "times", 0, 1);
  if (!times) co_return refuse(times.error());
  auto log = co_await sandboxes.logs().tail(request.params["id"], *bytes, *times == 1);
  co_return log ? http::text_response(200, std::move(*log)) : refuse(log.error());
}

net::awaitable<http::Response> log_stream(HostSandboxes& sandboxes, http::Request& request) {
  const http::Query query = http::Query::parse(request.query());
  LogsFrom from;
  if (query.find("tail") != nullptr) {
    const auto tail = number_in(query, "tail", 0, kMaxTail);
    if (!tail) co_return refuse(tail.error());
    from.tail = *tail;
  }
  if (const std::string* since = query.find("since")) {
    if (!begins_with_log_stamp(*since + " ") || since->size() + 1 != kLogStampSize) {
      co_return http::problem(400, kDefaultCode, "since: expected a time like 2025-01-02T03:04:05.000000006Z");
    }
    from.since = *since;
  }
  const auto follow = number_in(query, "follow", 0, 1);
  if (!follow) co_return refuse(follow.error());
  auto log = co_await sandboxes.logs().open(request.params["id"], std::move(from), *follow == 1);
  if (!log) co_return refuse(log.error());
  http::Response response;
  response.headers.set("Content-Type", "application/octet-stream");
  response.body = http::StreamBody{std::move(*log), std::nullopt};
  co_return response;
}

net::awaitable<http::Response> snapshot(HostSandboxes& sandboxes, http::Request& request) {
  auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return refuse(body.error());
  auto value = api::parse_json(*body);
  if (!value) co_return refuse(value.error());
  api::ObjectReader reader(*value, {});
  const std::string id = reader.required_string("id");
  if (auto read = reader.finish(); !read) co_return refuse(read.error());
  auto made = co_await sandboxes.snapshots().capture(request.params["id"], id);
  co_return made ? answer(201, api::native::encode(*made)) : refuse(made.error());
}

}  // namespace

void add_sandbox_routes(http::Router& router, HostSandboxes& sandboxes) {
  using http::Request;
  using http::Response;
  using Answer = net::awaitable<Response>;

  router.get("/v1/info", [](Request&) -> Answer {
    co_return answer(200, json::object{{"name", "sandboxd"}, {"version", OSB_VERSION}});
  });
  router.get("/v1/events", [&](Request&) -> Answer {
    co_return stream_of_lines([&](http::BodyWriter& out) { return send_events(sandboxes, out); });
  });
  router.get("/v1/sandboxes", [&](Request&) -> Answer {
    json::array all;
    for (const auto& sandbox : sandboxes.list()) all.push_back(api::native::encode(sandbox));
    co_return answer(200, json::object{{"sandboxes", std::move(all)}});
  });
  router.post("/v1/sandboxes", [&](Request& request) { return create(sandboxes, request); });
  router.get("/v1/sandboxes/{id}", [&](Request& request) -> Answer {
    const auto sandbox = sandboxes.inspect(request.params["id"]);
    co_return sandbox ? answer(200, api::native::encode(*sandbox)) : refuse(sandbox.error());
  });
  router.del("/v1/sandboxes/{id}",
             [&](Request& request) -> Answer { co_return done(co_await sandboxes.remove(request.params["id"])); });
  router.post("/v1/sandboxes/{id}/pause",
              [&](Request& request) -> Answer { co_return done(co_await sandboxes.pause(request.params["id"])); });
  router.post("/v1/sandboxes/{id}/resume",
              [&](Request& request) -> Answer { co_return done(co_await sandboxes.resume(request.params["id"])); });
  router.get("/v1/sandboxes/{id}/stats", [&](Request& request) -> Answer {
    const auto stats = co_await sandboxes.stats(request.params["id"]);
    co_return stats ? answer(200, api::native::encode(*stats)) : refuse(stats.error());
  });
  router.get("/v1/sandboxes/{id}/logs", [&](Request& request) { return logs(sandboxes, request); });
  router.get("/v1/sandboxes/{id}/logs/stream", [&](Request& request) { return log_stream(sandboxes, request); });
  router.post("/v1/sandboxes/{id}/connect/{port:int}", [&](Request& request) { return connect(sandboxes, request); });

  router.post("/v1/sandboxes/{id}/snapshots", [&](Request& request) { return snapshot(sandboxes, request); });
  router.get("/v1/snapshots", [&](Request&) -> Answer {
    json::array all;
    for (const auto& each : sandboxes.snapshots().list()) all.push_back(api::native::encode(each));
    co_return answer(200, json::object{{"snapshots", std::move(all)}});
  });
  router.get("/v1/snapshots/{id}", [&](Request& request) -> Answer {
    const auto found = sandboxes.snapshots().inspect(request.params["id"]);
    co_return found ? answer(200, api::native::encode(*found)) : refuse(found.error());
  });
  router.get("/v1/snapshots/{id}/export", [&](Request& request) -> Answer {
    std::string id = request.params["id"];
    auto permit = co_await sandboxes.snapshots().send_permit(id);
    if (!permit) co_return refuse(permit.error());
    Response response;
    response.headers.set("Content-Type", "application/x-tar");
    response.body =
        http::StreamBody{[&sandboxes, id = std::move(id), permit = std::move(*permit)](http::BodyWriter& out) mutable {
                           return sandboxes.snapshots().send(id, out, std::move(permit));
                         },
                         std::nullopt};
    co_return response;
  });
  router.del("/v1/snapshots/{id}", [&](Request& request) -> Answer {
    co_return done(co_await sandboxes.snapshots().remove(request.params["id"]));
  });
}

}  // namespace osb::sandboxd
