#pragma once

#include <string_view>

#include "base/error.h"
#include "http/message.h"
#include "server/access/principal.h"
#include "tls/sha256.h"

namespace osb::server {

// Finds the principal of a request. Today there is one, the administrator: every client with the server's key, or every
// client when the server has none. One loop.
class Authenticator {
 public:
  // A blank key asks for nothing.
  explicit Authenticator(std::string_view key) { set_key(key); }
  void set_key(std::string_view key);
  bool asks_for_key() const { return asks_for_key_; }

  // By the header OPEN-SANDBOX-API-KEY; /metrics takes the key as a bearer token too. Code::Unauthorized. Takes the
  // same time wherever a wrong key differs.
  Result<PrincipalPtr> authenticate(const http::Request& request) const;
  // Whether the request has the key in its header, or the server has none.
  bool has_key(const http::Request& request) const;
  // The same for a handler. A request without the key has a principal whose tenant has no records.
  PrincipalPtr principal_of(const http::Request& request) const;

 private:
  bool is_key(std::string_view given) const;

  bool asks_for_key_ = true;
  tls::Sha256Bytes digest_{};  // of the key
  const PrincipalPtr administrator_ = std::make_shared<const Principal>(Owner(), Role::Administrator);
  const PrincipalPtr nobody_ = std::make_shared<const Principal>(Owner{"", ""}, Role::Member);
};

// Refuses requests without the key before anything else happens. Exempt are health and documentation, and the proxy,
// whose targets have secrets of their own. `authenticator` outlives the handler.
http::Handler with_authentication(http::Handler inner, const Authenticator& authenticator);

// Whether a path needs no key. Compared segment by segment, after decoding, as the router does; a ".." anywhere in it
// needs the key.
bool is_open_path(std::string_view path);

}  // namespace osb::server
