#pragma once

#include <string_view>
#include <vector>

#include "vault/replacer.h"
#include "vault/secret.h"

namespace osb::vault {

// How a secret is written at a place of a request.
SecretText percent_encoded(std::string_view value);
SecretText form_encoded(std::string_view value);  // application/x-www-form-urlencoded
SecretText json_escaped(std::string_view value);  // between the quotes of a JSON string

// Adds the texts in which a server may echo a secret, each replaced by "[REDACTED]": plain, percent and form encoding,
// JSON, and base64 of any text that holds it.
void add_redactions(std::string_view secret, std::vector<Replacement>& out);

}  // namespace osb::vault
