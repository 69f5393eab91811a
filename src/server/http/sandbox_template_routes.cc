#include "api/lifecycle_template.h"
#include "server/http/answer.h"
#include "server/http/routes.h"

namespace osb::server {
namespace {

using http::Request;
using http::Response;
using Answer = net::awaitable<Response>;

Response template_answer(int status, const Result<TemplatePtr>& record) {
  if (!record) return refusal(record.error());
  return http::json_response(status, api::encode_template((*record)->view()));
}

Answer create(SandboxService& service, PrincipalPtr who, Request& request) {
  auto body = co_await read_body(request);
  if (!body) co_return refusal(body.error());
  auto wanted = api::decode_create_template(*body);
  if (!wanted) co_return refusal(wanted.error());
  const auto made = co_await service.templates().create(std::move(*wanted), *who);
  Response response = template_answer(201, made);
  if (made) response.headers.set("Location", "/v1/templates/" + (*made)->id);
  co_return response;
}

Answer list(SandboxService& service, PrincipalPtr who, Request& request) {
  const auto pairs = query_pairs(request);
  const auto query = api::decode_template_query(pairs);
  if (!query) co_return refusal(query.error());
  const auto page = service.templates().list(*query, who->scope());
  if (!page) co_return refusal(page.error());
  std::vector<api::TemplateView> views;
  for (const TemplatePtr& record : page->items) views.push_back(record->view());
  co_return http::json_response(
      200, api::encode_template_list(views, {query->paging.page, query->paging.page_size, page->total}));
}

Answer get(SandboxService& service, PrincipalPtr who, Request& request) {
  const auto pairs = query_pairs(request);
  const auto wait = api::decode_wait(pairs, request.headers.get("Prefer"));
  if (!wait) co_return refusal(wait.error());
  const std::string id = request.params["id"];
  auto record = service.templates().get(id, who->scope());
  if (record && wait->limit.count() > 0) {
    co_await service.templates().wait(id, wait->limit);
    record = service.templates().get(id, who->scope());
  }
  Response response = template_answer(200, record);
  if (!wait->applied.empty()) response.headers.set("Preference-Applied", wait->applied);
  co_return response;
}

Answer remove(SandboxService& service, PrincipalPtr who, Request& request) {
  const auto removed = co_await service.templates().remove(request.params["id"], who->scope());
  co_return removed ? http::empty_response(204) : refusal(removed.error());
}

Answer logs(SandboxService& service, PrincipalPtr who, Request& request) {
  auto text = co_await service.templates().log(request.params["id"], who->scope());
  if (!text) co_return refusal(text.error());
  co_return http::text_response(200, std::move(*text));
}

}  // namespace

void add_sandbox_template_routes(http::Router& router, RouteContext& context) {
  const auto add = [&](std::string_view method, std::string_view pattern, Action action) {
    add_both(router, context, method, pattern, action);
  };
  add("POST", "/templates", create);
  add("GET", "/templates", list);
  add("GET", "/templates/{id}", get);
  add("DELETE", "/templates/{id}", remove);
  add("GET", "/templates/{id}/logs", logs);
}

}  // namespace osb::server
