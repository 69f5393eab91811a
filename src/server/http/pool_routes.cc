#include "api/lifecycle_pool.h"
#include "server/http/answer.h"
#include "server/http/routes.h"

namespace osb::server {
namespace {

using http::Request;
using http::Response;
using Answer = net::awaitable<Response>;

Result<runtime::Pools*> all_pools(const SandboxService& service) {
  runtime::Pools* pools = service.backend().pools();
  if (pools == nullptr) return api::pools_not_supported();
  return pools;
}

// For changes: a pool has pods of any kind, and all tenants take sandboxes from it.
Result<runtime::Pools*> administered_pools(const SandboxService& service, const Principal& who) {
  if (auto ok = require_administrator(who, "pools are shared by all tenants"); !ok) return Failure(ok.error());
  return all_pools(service);
}

Response show(const Result<api::Pool>& pool, int status = 200) {
  return pool ? http::json_response(status, api::encode_pool(*pool)) : refusal(pool.error());
}

Answer create(SandboxService& service, PrincipalPtr who, Request& request) {
  auto body = co_await read_body(request);
  if (!body) co_return refusal(body.error());
  auto wanted = api::decode_create_pool(*body);
  if (!wanted) co_return refusal(wanted.error());
  const auto pools = administered_pools(service, *who);
  if (!pools) co_return refusal(pools.error());
  co_return show(co_await (*pools)->create(std::move(*wanted)), 201);
}

Answer list(SandboxService& service, PrincipalPtr, Request&) {
  const auto pools = all_pools(service);
  if (!pools) co_return refusal(pools.error());
  const auto all = co_await (*pools)->list();
  co_return all ? http::json_response(200, api::encode_pool_list(*all)) : refusal(all.error());
}

Answer get(SandboxService& service, PrincipalPtr, Request& request) {
  const auto pools = all_pools(service);
  if (!pools) co_return refusal(pools.error());
  co_return show(co_await (*pools)->get(request.params["name"]));
}

Answer resize(SandboxService& service, PrincipalPtr who, Request& request) {
  auto body = co_await read_body(request);
  if (!body) co_return refusal(body.error());
  const auto wanted = api::decode_update_pool(*body);
  if (!wanted) co_return refusal(wanted.error());
  const auto pools = administered_pools(service, *who);
  if (!pools) co_return refusal(pools.error());
  co_return show(co_await (*pools)->resize(request.params["name"], *wanted));
}

Answer remove(SandboxService& service, PrincipalPtr who, Request& request) {
  const auto pools = administered_pools(service, *who);
  if (!pools) co_return refusal(pools.error());
  const auto removed = co_await (*pools)->remove(request.params["name"]);
  co_return removed ? http::empty_response(204) : refusal(removed.error());
}

}  // namespace

void add_pool_routes(http::Router& router, RouteContext& context) {
  add_both(router, context, "POST", "/pools", create);
  add_both(router, context, "GET", "/pools", list);
  add_both(router, context, "GET", "/pools/{name}", get);
  add_both(router, context, "PUT", "/pools/{name}", resize);
  add_both(router, context, "DELETE", "/pools/{name}", remove);
}

}  // namespace osb::server
