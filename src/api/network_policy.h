#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/json/object.hpp>

#include "api/json.h"

// The network policy of a sandbox as requests carry it. Only the form is checked here: src/policy knows which rules
// make sense.
namespace osb::api {

struct NetworkRule {
  std::string action;                     // as written
  std::string target = {};                // "" only with ports: every address
  std::vector<std::uint16_t> ports = {};  // TCP; empty: all
  // Members with other names, kept for the policy's own parser, which refuses misspelt ones.
  json::object others = {};

  bool operator==(const NetworkRule&) const = default;
};

struct NetworkPolicy {
  std::string default_action = {};  // "" when absent: deny
  std::vector<NetworkRule> egress = {};
  json::object others = {};

  bool operator==(const NetworkPolicy&) const = default;
};

// Reads the field `name`; an absent one, or one that is null, is nothing. Errors are rejected at the reader.
std::optional<NetworkPolicy> read_network_policy(ObjectReader& reader, std::string_view name);
// The same object again; `egress` is always there.
json::object to_json(const NetworkPolicy& policy);

// The request header with the token of a sandbox's policy API.
inline constexpr std::string_view kEgressTokenHeader = "OPENSANDBOX-EGRESS-AUTH";

}  // namespace osb::api
