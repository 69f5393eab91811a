#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/lifecycle_create.h"
#include "api/lifecycle_query.h"
#include "base/error.h"

// GET /sandboxes/{id}/endpoints/{port}.
namespace osb::api {

struct EndpointQuery {
  std::uint16_t port = 0;
  bool use_server_proxy = false;
  std::optional<std::uint64_t> expires;  // unix seconds of a signed route
};

// `signed_routes` tells whether the backend has them; where it does not, `expires` is 400 SANDBOX::API_NOT_SUPPORTED
// on Docker and SANDBOX::INVALID_PARAMETER elsewhere. Order as in the contract: integers (422), proxy with expires,
// expires, port range (400 <backend>::INVALID_PORT).
Result<EndpointQuery> decode_endpoint_query(std::string_view port, QueryPairs query, std::string_view backend,
                                            bool signed_routes);
// A signed route must end in the future.
Result<void> check_route_expiry(std::uint64_t expires, std::uint64_t now);

struct Endpoint {
  std::string endpoint;          // no scheme, no slash at the end
  StringMap headers;             // left out when empty
  std::string browser_url = {};  // addition: the port under a host name of its own; left out when empty
};
std::string encode_endpoint(const Endpoint& endpoint);

// "{base}/sandboxes/{id}/proxy/{port}": base is the configured public address without scheme and trailing slash, else
// the request's Host and `prefix`, "/v1" or "", by which the request came.
std::string server_proxy_endpoint(std::string_view eip, std::string_view host, std::string_view prefix,
                                  std::string_view id, std::uint16_t port);

}  // namespace osb::api
