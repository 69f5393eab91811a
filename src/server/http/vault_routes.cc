// The credential vault of a sandbox. Requests go to the sandbox's policy API; where one names an entry of the operator,
// the server puts the entry's value in.

#include "api/lifecycle_error.h"
#include "http/url.h"
#include "server/credentials/credential_supply.h"
#include "server/credentials/secret_body.h"
#include "server/http/answer.h"
#include "server/http/routes.h"
#include "server/http/sandbox_api.h"
#include "vault/requests.h"

namespace osb::server {
namespace {

using http::Request;
using http::Response;
using Answer = net::awaitable<Response>;

constexpr std::string_view kSilent = "its vault may have stayed as it was";

Result<SandboxPtr> find_vault(RouteContext& context, const Request& request) {
  return find_policy_api(context, request, "credential-vault", context.service.capabilities().no_credential_proxy);
}

Answer look(RouteContext& context, Request& request, std::string target) {
  auto record = find_vault(context, request);
  if (!record) co_return refusal(record.error());
  co_return co_await forward_to_policy_api(context, request, std::move(*record), std::move(target), kSilent);
}

Answer change(RouteContext& context, Request& request) {
  auto record = find_vault(context, request);
  if (!record) co_return refusal(record.error());
  auto text = co_await request.body->read_all(vault::kMaxBody);
  if (!text) {
    const bool long_one = text.error().code == Code::TooLarge;
    co_return refusal(long_one ? Error(Code::InvalidRequest, "body: larger than 1 MiB") : text.error());
  }
  auto body = std::make_shared<SecretBody>(std::move(*text));
  CredentialSupply::HandOver handed;
  if (context.credentials != nullptr) {
    auto filled = co_await context.credentials->fill(body->text(), **record, request.request_id);
    if (!filled) co_return refusal(filled.error());
    handed = std::move(filled->handed);
    if (filled->changed) body = std::make_shared<SecretBody>(std::move(filled->body));
  }
  request.body = std::move(body);
  const SandboxPtr sandbox = *record;
  Response response =
      co_await forward_to_policy_api(context, request, std::move(*record), "/credential-vault", kSilent);
  if (response.status < 300 && context.credentials != nullptr) {
    context.credentials->keep_fresh(sandbox->id, std::move(handed));
  }
  co_return response;
}

}  // namespace

void add_vault_routes(http::Router& router, RouteContext& context) {
  const std::string root = "/sandboxes/{id}/credential-vault";
  for (const std::string_view method : {"GET", "DELETE"}) {
    add_both(router, method, root,
             [&context](Request& request) { return look(context, request, "/credential-vault"); });
  }
  for (const std::string_view method : {"POST", "PATCH"}) {
    add_both(router, method, root, [&context](Request& request) { return change(context, request); });
  }
  add_both(router, "GET", root + "/audit", [&context](Request& request) {
    const std::string query(request.query());
    return look(context, request, "/credential-vault/audit" + (query.empty() ? "" : "?" + query));
  });
  for (const std::string part : {"/credentials", "/bindings"}) {
    add_both(router, "GET", root + part,
             [&context, part](Request& request) { return look(context, request, "/credential-vault" + part); });
    add_both(router, "GET", root + part + "/{name}", [&context, part](Request& request) {
      return look(context, request, "/credential-vault" + part + "/" + http::percent_encode(request.params["name"]));
    });
  }
}

}  // namespace osb::server
