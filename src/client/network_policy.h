#pragma once

#include <opensandbox/types.h>

#include "client/json.h"

namespace opensandbox {

json::object encode_rule(const NetworkRule& rule);
json::object encode_policy(const NetworkPolicy& policy);
NetworkPolicy policy_from(const json::object& object);

}  // namespace opensandbox
