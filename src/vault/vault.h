#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/json.h"
#include "base/error.h"
#include "policy/matcher.h"
#include "vault/injector.h"
#include "vault/requests.h"

namespace osb::vault {

// A vault without its values, for a durable record.
using StoredVault = api::json::object;

// The credentials and bindings of a sandbox at one revision. A value: a change makes a new one, so a refused change has
// changed nothing.
class Vault {
 public:
  // A new vault, at revision 1. Code::InvalidRequest says why not.
  static Result<Vault> create(CreateRequest request, const policy::Matcher& policy);

  // Code::Conflict: another revision was expected.
  Result<Vault> patched(PatchRequest request, const policy::Matcher& policy) const;

  std::uint64_t revision() const { return revision_; }
  bool has_bindings() const { return !bindings_.empty(); }

  // Whether a policy lets all bound hosts through; a policy that does not must not come into force.
  Result<void> check_policy(const policy::Matcher& policy) const;

  // The view of the API: names, never values.
  api::json::object state() const;
  api::json::object credentials() const;
  api::json::object bindings() const;
  Result<api::json::object> credential(const std::string& name) const;  // Code::NotFound
  Result<api::json::object> binding(const std::string& name) const;

  // The names of credentials whose values were lost in a restart. Requests that need one of them are refused.
  std::vector<std::string> to_refill() const;

  // For the sandbox's durable record: everything but values. restore() gives a vault that must be filled again.
  StoredVault to_stored() const;
  static Result<Vault> restore(const api::json::value& stored);

  // Code::Unavailable: no memory can be locked. `clock` outlives the injector.
  Result<InjectorPtr> injector(const Clock& clock = system_clock()) const;

 private:
  struct Credential {
    Secret value;
    std::uint64_t revision = 0;
    bool filled = true;
    Source source = {};
  };

  Vault() = default;
  Result<void> change_credentials(Changes<NewCredential>& changes);
  Result<void> change_bindings(Changes<Binding>& changes);
  Result<void> validate(const policy::Matcher& policy) const;
  api::json::object show(const std::string& name, const Credential& credential) const;

  std::uint64_t revision_ = 0;
  std::map<std::string, Credential> credentials_;  // sorted by name, as the API shows them
  std::map<std::string, Binding> bindings_;
};

}  // namespace osb::vault
