#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "api/lifecycle_endpoint.h"
#include "config/server_config.h"

namespace osb::server {

// A port of a sandbox behind the cluster's gateway: the address that clients use and the header that tells the gateway
// where to go. With `expires` (unix seconds) the route is signed by the active key and needs no token; the section must
// have keys then.
api::Endpoint gateway_endpoint(const config::IngressSection& gateway, std::string_view id, std::uint16_t port,
                               std::optional<std::uint64_t> expires);

}  // namespace osb::server
