#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "opensandbox/types.h"

// The egress sidecar of a sandbox (port 18080): only sandboxes made with a network policy have one; others answer with
// an Api or Network error.
namespace opensandbox {

struct EgressPolicy {
  std::string status = {};
  std::string mode = {};
  std::string enforcement_mode = {};
  std::string reason = {};
  NetworkPolicy policy = {};
  std::string json = {};
};

// One name that a sandbox has asked for, and what became of it. Not in the published contract.
struct EgressDecision {
  std::string name = {};
  std::string verdict = {};  // allow or deny
  std::string rule = {};     // the target of the rule that decided; "": the default action
  std::string note = {};     // why an allowed name failed
  bool audited = false;      // let pass although the policy denies it: the policy is only being tried out
  std::int64_t count = 0;
  std::vector<std::string> addresses = {};  // that it resolved to last
  std::string first_seen = {}, last_seen = {};
  std::string json = {};
};

// Called for each decision as it comes; false ends the reading.
using EgressDecisionHandler = std::function<bool(const EgressDecision&)>;

// The rules about what a sandbox may reach. Thread-safe. The answer to a change may come without the policy.
class Egress {
 public:
  // Whether the sandbox was made with a network policy: one question to the server, once.
  Result<bool> available() const;
  Result<EgressPolicy> get() const;
  // Replaces the whole policy.
  Result<EgressPolicy> replace(const NetworkPolicy& policy) const;
  // Targets given here win over existing rules for them; others and the default stay.
  Result<EgressPolicy> patch(const std::vector<NetworkRule>& rules) const;
  // Unknown targets are fine.
  Result<EgressPolicy> remove(const std::vector<std::string>& targets) const;
  // The last decisions, the oldest change first.
  Result<std::vector<EgressDecision>> decisions() const;
  // The same, then each that changes, until the handler or the sandbox ends it.
  Result<void> follow_decisions(const EgressDecisionHandler& handler) const;

  struct Impl;  // internal
  explicit Egress(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Impl> impl_;
};

// Secrets that the sidecar adds to requests on their way out; the sandbox never sees them.
struct Credential {
  std::string name = {};
  std::string value = {};  // never comes back
  // Instead of the value: an entry of the server's operator. The server fetches its value, which passes neither this
  // program nor the sandbox. Not in the published contract.
  std::string entry = {};
};

struct CredentialMatch {
  std::vector<std::string> hosts = {};
  // Empty: the sidecar's defaults (https, 443, GET POST PUT PATCH DELETE, every path).
  std::vector<std::string> schemes = {};
  std::vector<int> ports = {};
  std::vector<std::string> methods = {};
  std::vector<std::string> paths = {};
};

struct CredentialAuth {
  struct Header {
    std::string name = {};
    std::string credential = {};
  };
  // A text in requests that the sidecar replaces by a secret. Compared byte by byte.
  struct Substitution {
    std::string credential = {};
    std::string placeholder = {};
    std::vector<std::string> in = {};  // path, query, header, body
  };
  std::string type = {};        // bearer, basic, apiKey, customHeaders, passthrough
  std::string credential = {};  // all but customHeaders and passthrough
  std::string name = {};        // apiKey: the header's name
  std::vector<Header> headers = {};
  std::vector<Substitution> substitutions = {};
};

struct CredentialBinding {
  std::string name = {};
  CredentialMatch match = {};
  CredentialAuth auth = {};
};

struct CredentialMetadata {
  std::string name = {};
  std::string source_type = {};  // inline, operator
  std::int64_t revision = 0;
  // Of the source type operator: the entry, the hosts that its value may go to, and when it expires ("": never).
  std::string entry = {};
  std::vector<std::string> hosts = {};
  std::string expires_at = {};
};

struct CredentialBindingMetadata {
  std::string name = {};
  std::int64_t revision = 0;
  CredentialMatch match = {};
  std::string auth_type = {};
  std::string auth_name = {};
};

struct CredentialVaultState {
  std::int64_t revision = 0;
  std::vector<CredentialMetadata> credentials = {};
  std::vector<CredentialBindingMetadata> bindings = {};
  // Credentials whose values were lost in a restart: requests that need them are refused until they are replaced.
  std::vector<std::string> missing_values = {};
  std::string json = {};
};

struct CredentialVaultPatch {
  std::optional<std::int64_t> expected_revision = {};
  std::vector<Credential> add_credentials = {};
  std::vector<Credential> replace_credentials = {};
  std::vector<std::string> delete_credentials = {};
  std::vector<CredentialBinding> add_bindings = {};
  std::vector<CredentialBinding> replace_bindings = {};
  std::vector<std::string> delete_bindings = {};
};

// One use of a credential, or one change of the vault. Not in the published contract.
struct CredentialAuditLine {
  std::string time = {};
  std::string operation = {};  // inject, create, runtime_add, runtime_replace, runtime_delete
  std::string decision = {};   // of inject: injected, denied, ambiguous_match, source_error
  std::string binding = {};
  std::string source_type = {};
  std::string host = {}, method = {}, path_pattern = {};
  std::string headers = {};        // names of the header fields that were set
  std::string substitutions = {};  // places where a placeholder was replaced
  std::int64_t revision = 0;       // of the vault
  std::int64_t status_code = 0;    // of the answer
  std::string json = {};
};

// Called for each line as it comes; false ends the reading.
using CredentialAuditHandler = std::function<bool(const CredentialAuditLine&)>;

// Thread-safe.
class CredentialVault {
 public:
  Result<CredentialVaultState> create(const std::vector<Credential>& credentials,
                                      const std::vector<CredentialBinding>& bindings) const;
  Result<CredentialVaultState> get() const;
  Result<CredentialVaultState> patch(const CredentialVaultPatch& patch) const;
  Result<void> remove() const;
  Result<std::vector<CredentialMetadata>> credentials() const;
  Result<CredentialMetadata> credential(const std::string& name) const;
  Result<std::vector<CredentialBindingMetadata>> bindings() const;
  Result<CredentialBindingMetadata> binding(const std::string& name) const;
  // The last uses and changes, the oldest first.
  Result<std::vector<CredentialAuditLine>> audit() const;
  // The same, then each new one, until the handler or the sandbox ends it.
  Result<void> follow_audit(const CredentialAuditHandler& handler) const;

  explicit CredentialVault(std::shared_ptr<Egress::Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Egress::Impl> impl_;
};

}  // namespace opensandbox
