#include <opensandbox/egress.h>

#include "client/sync.h"

namespace opensandbox {

Result<bool> Egress::available() const { return impl_->client.core()->run_task(impl_->sandbox.egress().available()); }
Result<EgressPolicy> Egress::get() const { return impl_->client.core()->run_task(impl_->sandbox.egress().get()); }
Result<EgressPolicy> Egress::patch(const std::vector<NetworkRule>& rules) const {
  return impl_->client.core()->run_task(impl_->sandbox.egress().patch(rules));
}
Result<EgressPolicy> Egress::replace(const NetworkPolicy& policy) const {
  return impl_->client.core()->run_task(impl_->sandbox.egress().replace(policy));
}
Result<std::vector<EgressDecision>> Egress::decisions() const {
  return impl_->client.core()->run_task(impl_->sandbox.egress().decisions());
}
Result<void> Egress::follow_decisions(const EgressDecisionHandler& handler) const {
  return impl_->client.core()->run([&](Caller& caller) {
    return impl_->sandbox.egress().follow_decisions(
        [&caller, &handler](const EgressDecision& decision) -> async::Task<bool> {
          return caller.run<bool>([&handler, &decision]() -> Result<bool> { return handler(decision); });
        });
  });
}
Result<EgressPolicy> Egress::remove(const std::vector<std::string>& targets) const {
  return impl_->client.core()->run_task(impl_->sandbox.egress().remove(targets));
}

Result<CredentialVaultState> CredentialVault::create(const std::vector<Credential>& credentials,
                                                     const std::vector<CredentialBinding>& bindings) const {
  return impl_->client.core()->run_task(impl_->sandbox.credential_vault().create(credentials, bindings));
}
Result<CredentialVaultState> CredentialVault::get() const {
  return impl_->client.core()->run_task(impl_->sandbox.credential_vault().get());
}
Result<CredentialVaultState> CredentialVault::patch(const CredentialVaultPatch& patch) const {
  return impl_->client.core()->run_task(impl_->sandbox.credential_vault().patch(patch));
}
Result<void> CredentialVault::remove() const {
  return impl_->client.core()->run_task(impl_->sandbox.credential_vault().remove());
}
Result<std::vector<CredentialMetadata>> CredentialVault::credentials() const {
  return impl_->client.core()->run_task(impl_->sandbox.credential_vault().credentials());
}
Result<CredentialMetadata> CredentialVault::credential(const std::string& name) const {
  return impl_->client.core()->run_task(impl_->sandbox.credential_vault().credential(name));
}
Result<std::vector<CredentialBindingMetadata>> CredentialVault::bindings() const {
  return impl_->client.core()->run_task(impl_->sandbox.credential_vault().bindings());
}
Result<CredentialBindingMetadata> CredentialVault::binding(const std::string& name) const {
  return impl_->client.core()->run_task(impl_->sandbox.credential_vault().binding(name));
}
Result<std::vector<CredentialAuditLine>> CredentialVault::audit() const {
  return impl_->client.core()->run_task(impl_->sandbox.credential_vault().audit());
}
Result<void> CredentialVault::follow_audit(const CredentialAuditHandler& handler) const {
  return impl_->client.core()->run([&](Caller& caller) {
    return impl_->sandbox.credential_vault().follow_audit(
        [&caller, &handler](const CredentialAuditLine& line) -> async::Task<bool> {
          return caller.run<bool>([&handler, &line]() -> Result<bool> { return handler(line); });
        });
  });
}

}  // namespace opensandbox
