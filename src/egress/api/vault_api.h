#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/net.h"
#include "base/ip_address.h"
#include "egress/api/change_turns.h"
#include "egress/sandbox/sandbox.h"
#include "egress/vault/vault_audit.h"
#include "http/message.h"
#include "vault/vault.h"

namespace osb::egress {

struct VaultOptions {
  // The readiness of a write, in the contract's order.
  std::function<bool(const Sandbox&)> intercepted = {};  // connections of the sandbox go through the interceptor
  bool verifies_upstream = true;                         // certificates of servers are checked
  std::function<bool()> proxy_up = {};                   // the interceptor serves

  // With `require_tls` plain HTTP is good from this machine, and from proxies that say they were asked over https.
  bool require_tls = false;
  std::vector<IpPrefix> trusted_proxies = {};

  vault::BindingRules rules = {};

  // Makes a vault durable without its values, before it comes into force; nothing instead of a vault: there is none.
  // Not set: a vault ends with this process.
  std::function<net::awaitable<Result<void>>(std::string id, std::optional<vault::StoredVault> stored)> store = {};
};

// /credential-vault of a sandbox: routes, gates and plain-text errors of the contract. Values of credentials go in and
// never out.
class VaultApi {
 public:
  // `turns` and `audit` outlive it.
  VaultApi(ChangeTurns& turns, VaultAudit& audit, VaultOptions options)
      : turns_(turns), audit_(audit), options_(std::move(options)) {}

  // The token was checked.
  net::awaitable<http::Response> handle(SandboxPtr sandbox, http::Request& request);

  // 403 for GET, else 405: nobody reads values over HTTP. Asked before the token is checked.
  static bool is_active_route(std::string_view path) { return path == "/credential-vault/_active"; }
  static http::Response refuse_active(const http::Request& request);

 private:
  struct Change;
  net::awaitable<http::Response> write(SandboxPtr sandbox, http::Request& request);
  net::awaitable<http::Response> apply(SandboxPtr sandbox, Change& change);
  std::optional<http::Response> gate(const Sandbox& sandbox, const http::Request& request) const;
  bool transport_is_good(const http::Request& request) const;

  ChangeTurns& turns_;
  VaultAudit& audit_;
  VaultOptions options_;
};

}  // namespace osb::egress
