#pragma once

#include <string>
#include <string_view>

#include "async/net.h"
#include "server/http/routes.h"

namespace osb::server {

// The sandbox that a request is about, if it has a policy API. An error is the answer: 404, or 400 with `why_not`, or
// without a reason of the backend that the sandbox was made without a network policy.
Result<SandboxPtr> find_policy_api(RouteContext& context, const http::Request& request, std::string_view what,
                                   const std::string& why_not);

// Forwards the request to `target` of the sandbox's policy API, outside the sandbox, with the server's token for it
// instead of the caller's. Waits for a sandbox that is being made and wakes one that sleeps. `silent` answers for an
// API that does not. The request outlives the call.
net::awaitable<http::Response> forward_to_policy_api(RouteContext& context, http::Request& request, SandboxPtr record,
                                                     std::string target, std::string_view silent);

}  // namespace osb::server
