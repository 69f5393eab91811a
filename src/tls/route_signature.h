#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

// Routes to a port of a sandbox that carry their own permission (OSEP-0011): everyone with the link has access until it
// expires. The server signs them, the ingress gateway checks them. A link cannot be taken back, except with its key.
//
// The signature is 32 bits of a keyed SHA-256, which the wire format fixes: a gateway must slow down guessing.
namespace osb::tls {

struct RouteKey {
  char id = 'a';       // one of 0-9 a-z
  std::string secret;  // bytes, not empty
};
// By their id. Parsing of configurations is elsewhere.
using RouteKeys = std::map<char, std::string>;

// The two parts that a signed route has behind id and port.
struct RouteSignature {
  std::string expiry;     // unix seconds in base 36
  std::string signature;  // eight hex digits and the id of the key

  bool operator==(const RouteSignature&) const = default;
};

RouteSignature sign_route(const RouteKey& key, std::string_view sandbox_id, std::uint16_t port, std::uint64_t expires);

// Checks the form, then the time, then the key and the digest, in constant time. InvalidRequest: not a signature at
// all; Unauthorized: expired (valid through the second `expires`), an unknown key, or not signed by it.
Result<void> verify_route(const RouteKeys& keys, std::string_view sandbox_id, std::uint16_t port,
                          const RouteSignature& given, std::uint64_t now);

// Unix seconds in base 36, 1 to 13 of 0-9 a-z, no leading zero except in "0". Nothing: not of that form, or more than
// 64 bits.
std::string encode_route_expiry(std::uint64_t expires);
std::optional<std::uint64_t> decode_route_expiry(std::string_view text);
// Whether a text has the form of a signature; a gateway tells signed routes from plain ones by it.
bool is_route_signature(std::string_view text);

// How a gateway reads routes.
enum class RouteMode { Wildcard, Header, Uri };
struct GatewayRoute {
  std::string endpoint;  // no scheme
  std::string header;    // value of OpenSandbox-Ingress-To; "" when the mode needs none
};
// The route to a port, signed or not. `address` is the gateway's; "*.base" in wildcard mode.
GatewayRoute gateway_route(RouteMode mode, std::string_view address, std::string_view sandbox_id, std::uint16_t port,
                           const std::optional<RouteSignature>& signature);

}  // namespace osb::tls
