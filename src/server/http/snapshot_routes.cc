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

Answer create(SandboxService& service, Request& request) {
  auto body = co_await read_body(request);
  if (!body) co_return refusal(body.error());
  auto wanted = api::decode_create_snapshot(*body);
  if (!wanted) co_return refusal(wanted.error());
  const auto made = co_await service.create_snapshot(request.params["id"], std::move(wanted->name));
  if (!made) co_return refusal(made.error());
  Response response = http::json_response(202, api::encode_snapshot(view(**made)));
  response.headers.set("Location", "/v1/snapshots/" + (*made)->id);
  co_return response;
}

Answer list(SandboxService& service, Request& request) {
  const auto pairs = query_pairs(request);
  const auto query = api::decode_snapshot_query(pairs);
  if (!query) co_return refusal(query.error());
  const auto page = service.store().list_snapshots(*query);
  std::vector<api::SnapshotView> views;
  for (const SnapshotPtr& record : page.items) views.push_back(view(*record));
  co_return http::json_response(
      200, api::encode_snapshot_list(views, {query->paging.page, query->paging.page_size, page.total}));
}

Answer get(SandboxService& service, Request& request) {
  const auto record = service.get_snapshot(request.params["id"]);
  if (!record) co_return refusal(record.error());
  co_return http::json_response(200, api::encode_snapshot(view(**record)));
}

Answer remove(SandboxService& service, Request& request) {
  const auto removed = co_await service.remove_snapshot(request.params["id"]);
  co_return removed ? http::empty_response(204) : refusal(removed.error());
}

}  // namespace

void add_snapshot_routes(http::Router& router, RouteContext& context) {
  SandboxService& service = context.service;
  const auto add = [&](std::string_view method, std::string_view pattern,
                       Answer (*handler)(SandboxService&, Request&)) {
    add_both(router, method, pattern, [&service, handler](Request& request) { return handler(service, request); });
  };
  add("POST", "/sandboxes/{id}/snapshots", create);
  add("GET", "/snapshots", list);
  add("GET", "/snapshots/{id}", get);
  add("DELETE", "/snapshots/{id}", remove);
}

}  // namespace osb::server
