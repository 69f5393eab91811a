#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "http/url.h"

namespace osb::image {

// One registry of an operator's list: "host" (ports 443 and 80), "host:port", or "host:*" for every port. IPv6
// addresses stand in brackets.
struct RegistryName {
  static Result<RegistryName> parse(std::string_view text);  // Code::InvalidRequest

  std::string host;        // lower case, without brackets
  std::uint16_t port = 0;  // 0: see any_port
  bool any_port = false;

  bool names(const http::Url& origin) const;
};

// Where images may come from. Pulls are requests of a root daemon that strangers cause, and a registry can lead them
// on by redirects and by the token server it names. So hosts that the operator has not listed are reached with TLS and
// at addresses of the internet only.
struct RegistryRules {
  std::vector<RegistryName> insecure;        // may talk HTTP without TLS, at any address
  std::vector<RegistryName> private_places;  // may be at any address; on loopback also without TLS

  bool lists(const http::Url& origin) const;
  bool may_be_plain(const http::Url& origin) const;  // whatever the address
  // For tls::make_connector: before each connection, with the address it would go to. Code::Forbidden. The message is
  // the same whether something listens there or not, and does not repeat the address that a name has.
  Result<void> check(const http::Url& origin, const std::string& address) const;
};

}  // namespace osb::image
