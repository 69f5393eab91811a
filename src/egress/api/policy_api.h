#pragma once

#include <functional>
#include <optional>
#include <string>

#include "async/net.h"
#include "egress/api/change_turns.h"
#include "egress/api/vault_api.h"
#include "egress/enforcer.h"
#include "egress/sandbox/sandboxes.h"
#include "http/message.h"
#include "policy/changes.h"

namespace osb::egress {

// The HTTP API of a sandbox's policy: GET, PUT, POST, PATCH and DELETE /policy, GET /decisions, /healthz, and the
// credential vault. Errors are
// plain text, as the contract says. Changes of one sandbox happen one after the other.
class PolicyApi {
 public:
  struct Options {
    std::size_t max_rules = policy::kDefaultMaxRules;
    std::string reason;  // shown by GET: a part of the policy that has no effect here
    // Not set: nothing intercepts connections here, and requests about the credential vault are a 501.
    std::optional<VaultOptions> vault = {};
  };
  // Called with the outcome of each change, for the log.
  using Changed = std::function<void(const std::string& id, const policy::Change& change, const Error* failed)>;

  PolicyApi(net::any_io_executor executor, Sandboxes& sandboxes, Enforcer& enforcer, Options options,
            Changed changed = {});

  // Of the vaults: lines and counters.
  VaultAudit& audit() { return audit_; }

  // The sandbox's id comes from the connection. The request outlives the call.
  net::awaitable<http::Response> handle(std::string id, http::Request& request);

 private:
  net::awaitable<http::Response> policy_request(SandboxPtr sandbox, http::Request& request);
  net::awaitable<http::Response> change(SandboxPtr sandbox, std::string method, std::string body);
  http::Response status(const Sandbox& sandbox) const;

  Sandboxes& sandboxes_;
  Enforcer& enforcer_;
  Options options_;
  Changed changed_;
  ChangeTurns turns_;
  VaultAudit audit_;
  std::optional<VaultApi> vault_;
};

// "message\n" as text/plain.
http::Response plain_error(int status, std::string_view message);

}  // namespace osb::egress
