#include "api/lifecycle_snapshot.h"
#include "server/http/answer.h"
#include "server/http/routes.h"

namespace osb::server {
namespace {

using http::Request;
using http::Response;
using Answer = net::awaitable<Response>;

api::SnapshotView view(const SnapshotRecord& record) {
  return {record.id, record.sandbox_id, record.name, &record.status, record.created_at};
}

Answer create(SandboxService& service, PrincipalPtr who, Request& request) {
  auto body = co_await read_body(request);
  if (!body) co_return refusal(body.error());
  auto wanted = api::decode_create_snapshot(*body);
  if (!wanted) co_return refusal(wanted.error());
  const auto made = co_await service.snapshots().create(request.params["id"], std::move(wanted->name), *who);
  if (!made) co_return refusal(made.error());
  Response response = http::json_response(202, api::encode_snapshot(view(**made)));
  response.headers.set("Location", "/v1/snapshots/" + (*made)->id);
  co_return response;
}

Answer list(SandboxService& service, PrincipalPtr who, Request& request) {
  const auto pairs = query_pairs(request);
  const auto query = api::decode_snapshot_query(pairs);
  if (!query) co_return refusal(query.error());
  const auto page = service.store().list_snapshots(*query, who->scope());
  std::vector<api::SnapshotView> views;
  for (const SnapshotPtr& record : page.items) views.push_back(view(*record));
  co_return http::json_response(
      200, api::encode_snapshot_list(views, {query->paging.page, query->paging.page_size, page.total}));
}

Answer get(SandboxService& service, PrincipalPtr who, Request& request) {
  const auto pairs = query_pairs(request);
  const auto wait = api::decode_wait(pairs, request.headers.get("Prefer"));
  if (!wait) co_return refusal(wait.error());
  const std::string id = request.params["id"];
  auto record = service.snapshots().get(id, who->scope());
  if (!record) co_return refusal(record.error());
  if (wait->limit.count() > 0) {
    (void)co_await service.snapshots().wait(*record, wait->limit);
    record = service.snapshots().get(id, who->scope());
    if (!record) co_return refusal(record.error());
  }
  Response response = http::json_response(200, api::encode_snapshot(view(**record)));
  if (!wait->applied.empty()) response.headers.set("Preference-Applied", wait->applied);
  co_return response;
}

Answer remove(SandboxService& service, PrincipalPtr who, Request& request) {
  const auto removed = co_await service.snapshots().remove(request.params["id"], who->scope());
  co_return removed ? http::empty_response(204) : refusal(removed.error());
}

net::awaitable<Result<void>> send_all(std::shared_ptr<http::BodySource> from, http::BodyWriter& to) {
  for (;;) {
    const auto piece = co_await from->read();
    if (!piece) co_return Failure(piece.error());
    if (piece->empty()) co_return Result<void>();
    if (auto sent = co_await to.write(*piece); !sent) co_return sent;
  }
}

Answer export_archive(SandboxService& service, PrincipalPtr who, Request& request) {
  const std::string id = request.params["id"];
  auto archive = co_await service.snapshots().export_archive(id, who->scope());
  if (!archive) co_return refusal(archive.error());
  Response response;
  response.headers.set("Content-Type", "application/x-tar");
  response.headers.set("Content-Disposition", "attachment; filename=\"" + id + ".tar\"");
  response.body =
      http::StreamBody{[from = std::move(*archive)](http::BodyWriter& to) { return send_all(from, to); }, std::nullopt};
  co_return response;
}

}  // namespace

void add_snapshot_routes(http::Router& router, RouteContext& context) {
  const auto add = [&](std::string_view method, std::string_view pattern, Action action) {
    add_both(router, context, method, pattern, action);
  };
  add("POST", "/sandboxes/{id}/snapshots", create);
  add("GET", "/snapshots", list);
  add("GET", "/snapshots/{id}", get);
  add("DELETE", "/snapshots/{id}", remove);
  add("GET", "/snapshots/{id}/export", export_archive);
}

}  // namespace osb::server
