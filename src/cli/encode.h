#pragma once

#include <opensandbox/sandbox.h>
#include <optional>
#include <string>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

namespace osb::cli {

namespace json = boost::json;

// The SDK's objects as osb prints them: snake_case, absent things null, moments as ISO strings.
json::object encode(const opensandbox::SandboxInfo& info);
json::object encode(const opensandbox::Page& page);
json::object encode(const opensandbox::Endpoint& endpoint);
json::object encode(const opensandbox::Metrics& metrics);
json::object encode(const opensandbox::CommandStatus& status);
json::object encode(const opensandbox::FileInfo& info);
json::object encode(const opensandbox::NetworkPolicy& policy);
json::object encode(const opensandbox::CredentialMetadata& credential);
json::object encode(const opensandbox::CredentialBindingMetadata& binding);
json::object encode(const opensandbox::CredentialVaultState& state);
json::object encode(const opensandbox::Diagnostics& diagnostics);
json::object encode(const opensandbox::Status& status);

// The same with state and image as plain text, for tables.
json::object encode_flat(const opensandbox::SandboxInfo& info);

json::value text_or_null(const std::string& text);
json::value time_or_null(const std::optional<opensandbox::Timestamp>& time);
json::object encode(const opensandbox::StringMap& map);

}  // namespace osb::cli
