#include "egress/sandbox/sandboxes.h"

#include <boost/json/serialize.hpp>

#include "base/log.h"

namespace osb::egress {

Result<void> Sandboxes::set(const api::egress::SandboxPolicy& message) {
  auto policy = policy::parse_policy(boost::json::serialize(message.policy));
  if (!policy) return with_context("policy of sandbox " + message.id, policy.error());
  const bool fresh = !by_id_.contains(message.id);
  set(message.id, message.address, message.revision, std::move(*policy), message.token, message.audit);
  Sandbox& sandbox = *by_id_[message.id];
  sandbox.intercept = message.intercept;
  // Later messages are about the policy: the vault of a sandbox that we know is newer than its record.
  if (fresh && message.vault) return restore_vault(sandbox, *message.vault);
  return {};
}

Result<void> Sandboxes::restore_vault(Sandbox& sandbox, const boost::json::value& stored) {
  auto vault = vault::Vault::restore(stored);
  if (!vault) return with_context("credential vault of sandbox " + sandbox.id, vault.error());
  auto injector = vault->injector();
  if (!injector) return with_context("credential vault of sandbox " + sandbox.id, injector.error());
  sandbox.vault = std::move(*vault);
  sandbox.injector = std::move(*injector);
  if (!sandbox.vault->to_refill().empty()) {
    log_warn("credential vault has lost its values in a restart: bound requests are refused until it is filled again",
             {{"sandbox_id", sandbox.id}, {"credential_vault_revision", sandbox.vault->revision()}});
  }
  return {};
}

void Sandboxes::set(const std::string& id, const IpAddress& address, std::uint64_t revision, policy::Policy policy,
                    std::string token, bool audit) {
  SandboxPtr& sandbox = by_id_[id];
  if (!sandbox) {
    sandbox = std::make_shared<Sandbox>(executor_);
    sandbox->id = id;
    sandbox->number = ++last_number_;
  } else if (sandbox->address != address) {
    by_address_.erase(sandbox->address);
  }
  // An address that moved from another sandbox is the newer one's.
  if (const SandboxPtr other = by_address(address); other && other != sandbox) remove(other->id);
  sandbox->address = address;
  sandbox->revision = revision;
  sandbox->policy = std::move(policy);
  sandbox->token = std::move(token);
  sandbox->audit = audit;
  by_address_[address] = sandbox;
  rebuild(sandbox);
}

void Sandboxes::rebuild(const SandboxPtr& sandbox) {
  sandbox->matcher = std::make_shared<const policy::Matcher>(sandbox->policy, overlays_);
  auto allowed = sandbox->opened.take_allowed(*sandbox->matcher, clock_.steady_now());
  if (!allowed.empty() && reopen_ && sandbox->opens_addresses()) reopen_(sandbox, std::move(allowed));
}

void Sandboxes::remove(const std::string& id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  found->second->gone = true;
  found->second->decisions.close();
  found->second->vault_trail.close();
  found->second->vault.reset();
  found->second->injector.reset();
  if (const auto at = by_address_.find(found->second->address);
      at != by_address_.end() && at->second == found->second) {
    by_address_.erase(at);
  }
  const SandboxPtr gone = found->second;
  by_id_.erase(found);
  removed_(*gone);
}

Result<void> Sandboxes::set_overlays(std::string_view deny, std::string_view allow) {
  auto denied = policy::parse_overlay(deny, policy::Action::Deny);
  if (!denied) return with_context("deny.always", denied.error());
  auto allowed = policy::parse_overlay(allow, policy::Action::Allow);
  if (!allowed) return with_context("allow.always", allowed.error());
  overlays_ = {std::move(*denied), std::move(*allowed)};
  for (const auto& [id, sandbox] : by_id_) {
    rebuild(sandbox);
    if (!sandbox->vault) continue;
    // The name does not resolve any more, so nothing is sent; the binding stays for the day on which it does.
    if (const auto covered = sandbox->vault->check_policy(*sandbox->matcher); !covered) {
      log_warn("rules of the operator close a bound host", {{"sandbox_id", id}, {"error", covered.error().message}});
    }
  }
  return {};
}

SandboxPtr Sandboxes::by_id(const std::string& id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

SandboxPtr Sandboxes::by_address(const IpAddress& address) const {
  const auto found = by_address_.find(address);
  return found == by_address_.end() ? nullptr : found->second;
}

}  // namespace osb::egress
