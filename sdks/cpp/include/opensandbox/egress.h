#pragma once

#include <cstdint>
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

// The rules about what a sandbox may reach. Thread-safe.
class Egress {
 public:
  Result<EgressPolicy> get() const;
  // Targets given here win over existing rules for them; others and the default stay.
  Result<EgressPolicy> patch(const std::vector<NetworkRule>& rules) const;
  // Unknown targets are fine.
  Result<EgressPolicy> remove(const std::vector<std::string>& targets) const;

  struct Impl;  // internal
  explicit Egress(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Impl> impl_;
};

// Secrets that the sidecar adds to requests on their way out; the sandbox never sees them.
struct Credential {
  std::string name = {};
  std::string value = {};  // never comes back
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
  std::string type = {};        // bearer, basic, apiKey, customHeaders
  std::string credential = {};  // all but customHeaders
  std::string name = {};        // apiKey: the header's name
  std::vector<Header> headers = {};
};

struct CredentialBinding {
  std::string name = {};
  CredentialMatch match = {};
  CredentialAuth auth = {};
};

struct CredentialMetadata {
  std::string name = {};
  std::string source_type = {};
  std::int64_t revision = 0;
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

  explicit CredentialVault(std::shared_ptr<Egress::Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Egress::Impl> impl_;
};

}  // namespace opensandbox
