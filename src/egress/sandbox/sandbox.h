#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/ip_address.h"
#include "egress/metrics/sandbox_metrics.h"
#include "egress/sandbox/audit_trail.h"
#include "egress/sandbox/budget.h"
#include "egress/sandbox/decisions.h"
#include "egress/sandbox/opened_addresses.h"
#include "policy/matcher.h"
#include "vault/vault.h"

namespace osb::egress {

// A sandbox with a policy. Shared: questions in flight hold it until they are answered.
struct Sandbox {
  explicit Sandbox(const net::any_io_executor& executor) : decisions(executor), vault_trail(executor) {}

  std::string id;
  std::uint64_t number = 0;  // of this process: never used twice
  IpAddress address;
  std::uint64_t revision = 0;
  policy::Policy policy;  // the user's own
  std::shared_ptr<const policy::Matcher> matcher;
  std::string token;
  bool audit = false;
  bool intercept = false;  // its connections to ports 80 and 443 come to the interceptor
  bool gone = false;

  OpenedAddresses opened;
  Budget budget;
  Decisions decisions;
  SandboxMetrics metrics;
  std::size_t waiting = 0;      // questions that wait for an upstream server
  std::size_t connections = 0;  // of DNS over TCP
  bool changing = false;        // a change of its policy or vault is going on

  // Both or none. The interceptor takes the injector anew for each request.
  std::optional<vault::Vault> vault;
  vault::InjectorPtr injector;
  AuditTrail vault_trail;

  // Names open nothing where addresses without a rule are open anyway.
  bool opens_addresses() const { return matcher->default_action() == policy::Action::Deny; }

  // How many bytes of a name the policy leaves to the sandbox: those below a wildcard. They are counted, unless other
  // ways out are open anyway.
  std::size_t free_bytes(std::string_view name, const policy::Verdict& verdict) const {
    if (verdict.rule == nullptr || !opens_addresses() || audit) return 0;
    const auto* target = std::get_if<policy::NameTarget>(&verdict.rule->target);
    if (target == nullptr || !target->below) return 0;
    return name.size() - std::min(name.size(), target->name.size() + 1);
  }
};

using SandboxPtr = std::shared_ptr<Sandbox>;

}  // namespace osb::egress
