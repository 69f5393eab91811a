#include "execd/init/initialization.h"

#include <utility>

#include "base/json_escape.h"
#include "base/log.h"

namespace osb::execd {
namespace {

constexpr std::size_t kMaxBody = 1024 * 1024;
constexpr std::string_view kReadyPath = "/ready";
constexpr std::string_view kInitPath = "/internal/init";

}  // namespace

std::string Initialization::state_json() const {
  std::string out = done() ? R"({"initialized":true)" : R"({"initialized":false)";
  if (!sandbox_id_.empty()) {
    out += R"(,"sandboxId":)";
    append_json_string(out, sandbox_id_);
  }
  if (generation_ > 0) out += R"(,"generation":)" + std::to_string(generation_);
  // Errors have these two everywhere.
  if (!done()) out += R"(,"code":"NOT_INITIALIZED","message":"this execd waits for POST /internal/init")";
  return out + '}';
}

net::awaitable<http::Response> Initialization::initialize(http::Request& request) {
  // Over the socket that execd inherited: a process of the sandbox, or a stranger at the port, does not name it.
  if (!awaited_ || request.peer != "unix") {
    co_return http::problem(404, "NOT_FOUND", "this execd awaits no initialization on this address");
  }
  if (generation_ > 0 || applying_) {
    co_return http::problem(409, "ALREADY_INITIALIZED", "execd has been initialized already");
  }
  applying_ = true;
  struct Release {
    ~Release() { flag = false; }
    bool& flag;
  } release{applying_};
  const auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return http::problem(body.error(), "INVALID_REQUEST_BODY");
  const auto wanted = api::decode_initialize_execd(*body);
  if (!wanted) co_return http::problem(wanted.error(), "INVALID_REQUEST_BODY");
  const auto warnings = co_await apply_(*wanted);
  if (!warnings) {
    const bool refused = warnings.error().code == Code::InvalidRequest;
    co_return http::problem(refused ? 400 : 500, refused ? "INVALID_REQUEST_BODY" : "RUNTIME_ERROR",
                            warnings.error().message);
  }
  sandbox_id_ = wanted->sandbox_id;
  generation_ = wanted->generation;
  log_info("initialized", {{"sandbox", sandbox_id_}, {"generation", generation_}});
  std::string out = R"({"status":"initialized","sandboxId":)";
  append_json_string(out, sandbox_id_);
  out += R"(,"generation":)" + std::to_string(generation_) + R"(,"warning":[)";
  for (std::size_t i = 0; i < warnings->size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, (*warnings)[i]);
  }
  co_return http::json_response(200, out + "]}");
}

void Initialization::add_routes(http::Router& router, Apply apply) {
  apply_ = std::move(apply);
  router.get(kReadyPath, [this](http::Request&) -> net::awaitable<http::Response> {
    co_return http::json_response(done() ? 200 : 503, state_json());
  });
  router.post(kInitPath, [this](http::Request& request) { return initialize(request); });
}

http::Handler Initialization::guard(http::Handler inner) const {
  return [this, inner = std::move(inner)](http::Request& request) -> net::awaitable<http::Response> {
    const std::string_view path = request.path();
    if (done() || path == "/ping" || path == kReadyPath || path == kInitPath) return inner(request);
    return [](http::Request&) -> net::awaitable<http::Response> {
      co_return http::problem(503, "NOT_INITIALIZED", "this execd waits for POST /internal/init");
    }(request);
  };
}

}  // namespace osb::execd
