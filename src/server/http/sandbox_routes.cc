
#include "api/lifecycle_error.h"
#include "api/lifecycle_sandbox.h"
#include "async/race.h"
#include "server/http/answer.h"
#include "server/http/routes.h"
#include "tls/sha256.h"

namespace osb::server {
namespace {

using namespace race;
using http::Request;
using http::Response;
using Answer = net::awaitable<Response>;

constexpr std::chrono::seconds kWatchPing(15);
// How long the answer of a create waits for Running or an error, unless the client says otherwise: most creates are
// over by then, and clients neither ask again nor miss why one failed.
constexpr std::chrono::seconds kCreateWait(1);

std::string hex_digest(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t byte : tls::sha256(text)) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

void apply_preference(const api::Wait& wait, Response& response) {
  if (!wait.applied.empty()) response.headers.set("Preference-Applied", wait.applied);
}

// With what only the backend knows. The instance lives as long as the record, and no longer than the next turn of the
// loop.
api::SandboxView view_of(const SandboxService& service, const SandboxRecord& record) {
  api::SandboxView out = record.view();
  if (const runtime::Instance* instance = service.instance(record.id)) out.pool = instance->pool;
  return out;
}

Response sandbox_answer(const SandboxService& service, const Result<SandboxPtr>& record) {
  if (!record) return refusal(record.error());
  return http::json_response(200, api::encode_sandbox(view_of(service, **record)));
}

Answer create(SandboxService& service, PrincipalPtr who, Request& request) {
  auto body = co_await read_body(request);
  if (!body) co_return refusal(body.error());
  const auto query = query_pairs(request);
  const auto wait = api::decode_wait(query, request.headers.get("Prefer"));
  if (!wait) co_return refusal(wait.error());
  SandboxService::CreateOptions options;
  options.wait = wait->asked ? wait->limit : kCreateWait;
  if (const std::string* key = request.headers.find("Idempotency-Key")) {
    if (auto ok = api::check_idempotency_key(*key); !ok) co_return refusal(ok.error());
    options.idempotency_key = *key;
    options.fingerprint = hex_digest(*body);
  }
  auto wanted = api::decode_create_sandbox(*body);
  if (!wanted) co_return refusal(wanted.error());
  auto made = co_await service.create(std::move(*wanted), *who, std::move(options));
  if (!made) co_return refusal(made.error());
  Response response = http::json_response(202, made->record ? api::encode_created(made->record->view()) : made->answer);
  apply_preference(*wait, response);
  co_return response;
}

Answer list(SandboxService& service, PrincipalPtr who, Request& request) {
  const auto pairs = query_pairs(request);
  const auto query = api::decode_sandbox_query(pairs);
  if (!query) co_return refusal(query.error());
  const auto page = service.store().list(*query, who->scope());
  std::vector<api::SandboxView> views;
  for (const SandboxPtr& record : page.items) views.push_back(view_of(service, *record));
  co_return http::json_response(
      200, api::encode_sandbox_list(views, {query->paging.page, query->paging.page_size, page.total}));
}

// Sends each state of the sandbox, until it is gone or the client disconnects; framed as execd frames its events.
net::awaitable<Result<void>> send_states(SandboxService& service, SandboxPtr record, http::BodyWriter& out) {
  std::string event = api::encode_state_event(unix_millis(), record->view());
  for (;;) {
    if (auto sent = co_await out.write(event + "\n\n"); !sent || !record) co_return sent;
    auto outcome = co_await (service.wait_change(record, kWatchPing) || out.peer_closed());
    if (outcome.index() == 1 || service.closing()) co_return Result<void>();
    const SandboxPtr next = std::get<0>(std::move(outcome));
    event = !next            ? api::encode_deleted_event(unix_millis())
            : next == record ? api::encode_ping_event(unix_millis())
                             : api::encode_state_event(unix_millis(), next->view());
    record = next;
  }
}

Answer get(SandboxService& service, PrincipalPtr who, Request& request) {
  auto record = service.get(request.params["id"], who->scope());
  if (!record) co_return refusal(record.error());
  const auto pairs = query_pairs(request);
  const auto wait = api::decode_wait(pairs, request.headers.get("Prefer"));
  if (!wait) co_return refusal(wait.error());
  for (const auto& [name, value] : pairs) {
    if (name != "watch") continue;
    const auto watch = api::parse_bool_parameter("query/watch", value.empty() ? "true" : value);
    if (!watch) co_return refusal(watch.error());
    if (!*watch) continue;
    co_return http::event_stream(
        [&service, held = *record](http::BodyWriter& out) { return send_states(service, held, out); });
  }
  if (wait->limit.count() > 0) {
    (void)co_await service.wait_settled(*record, wait->limit);
    record = service.get(request.params["id"], who->scope());
  }
  Response response = sandbox_answer(service, record);
  apply_preference(*wait, response);
  co_return response;
}

Answer remove(SandboxService& service, PrincipalPtr who, Request& request) {
  const std::string id = request.params["id"];
  const auto removed = co_await service.remove(id, who->scope());
  if (!removed) co_return refusal(removed.error());
  co_return http::empty_response(204);
}

Answer patch_metadata(SandboxService& service, PrincipalPtr who, Request& request) {
  auto body = co_await read_body(request);
  if (!body) co_return refusal(body.error());
  auto patch = api::decode_metadata_patch(*body);
  if (!patch) co_return refusal(patch.error());
  const auto record = co_await service.patch_metadata(request.params["id"], who->scope(), std::move(*patch));
  co_return sandbox_answer(service, record);
}

Answer renew(SandboxService& service, PrincipalPtr who, Request& request) {
  auto body = co_await read_body(request);
  if (!body) co_return refusal(body.error());
  const auto until = api::decode_renew(*body);
  if (!until) co_return refusal(until.error());
  const std::string id = request.params["id"];
  const auto renewed = co_await service.renew(id, who->scope(), *until);
  if (!renewed) co_return refusal(renewed.error());
  co_return http::json_response(200, api::encode_renewed(*renewed));
}

Response accepted(const Result<void>& done) { return done ? http::empty_response(202) : refusal(done.error()); }

Answer pause(SandboxService& service, PrincipalPtr who, Request& request) {
  const auto done = co_await service.pause(request.params["id"], who->scope());
  co_return accepted(done);
}

Answer resume(SandboxService& service, PrincipalPtr who, Request& request) {
  const auto done = co_await service.resume(request.params["id"], who->scope());
  co_return accepted(done);
}

}  // namespace

void add_sandbox_routes(http::Router& router, RouteContext& context) {
  const auto add = [&](std::string_view method, std::string_view pattern, Action action) {
    add_both(router, context, method, pattern, action);
  };
  add("POST", "/sandboxes", create);
  add("GET", "/sandboxes", list);
  add("GET", "/sandboxes/{id}", get);
  add("DELETE", "/sandboxes/{id}", remove);
  add("PATCH", "/sandboxes/{id}/metadata", patch_metadata);
  add("POST", "/sandboxes/{id}/renew-expiration", renew);
  add("POST", "/sandboxes/{id}/pause", pause);
  add("POST", "/sandboxes/{id}/resume", resume);
}

}  // namespace osb::server
