#pragma once

#include <opensandbox/egress.h>
#include <vector>

#include <boost/json/value.hpp>

#include "cli/problem.h"

namespace osb::cli {

struct VaultContents {
  std::vector<opensandbox::Credential> credentials;
  std::vector<opensandbox::CredentialBinding> bindings;
};

// The payloads of `osb credential-vault create` and `patch`, as the API has them. Messages never repeat a value: it may
// be a secret.
Expected<VaultContents> parse_vault_create(const boost::json::value& payload);
Expected<opensandbox::CredentialVaultPatch> parse_vault_patch(const boost::json::value& payload);

}  // namespace osb::cli
