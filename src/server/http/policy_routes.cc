// The network policy of a sandbox. Requests go to the sandbox's policy API.

#include "server/http/answer.h"
#include "server/http/routes.h"
#include "server/http/sandbox_api.h"

namespace osb::server {
namespace {

net::awaitable<http::Response> network_policy(RouteContext& context, http::Request& request) {
  const auto& can = context.service.capabilities();
  auto record = find_policy_api(context, request, "networkpolicy", can.no_network_policy);
  if (!record) co_return refusal(record.error());
  co_return co_await forward_to_policy_api(context, request, std::move(*record), "/policy",
                                           "its policy stays as it is");
}

}  // namespace

void add_policy_routes(http::Router& router, RouteContext& context) {
  for (const std::string_view method : {"GET", "PUT", "PATCH", "DELETE"}) {
    add_both(router, method, "/sandboxes/{id}/networkpolicy",
             [&context](http::Request& request) { return network_policy(context, request); });
  }
}

}  // namespace osb::server
