#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <boost/json/object.hpp>

#include "policy/policy.h"

namespace osb::sandboxd {

// The network policy of a sandbox, as its record keeps it.
struct PolicyRecord {
  policy::Policy policy = {};
  std::uint64_t revision = 1;  // grows with each change
  bool audit = false;          // traffic passes and names are recorded; the operator's deny rules still hold
  bool intercept = false;      // connections to ports 80 and 443 are led to the egress process
  // Of the credential vault, without values, as the egress process has written it. It must fail closed after a restart.
  std::optional<boost::json::object> vault = {};

  bool operator==(const PolicyRecord&) const = default;
};

}  // namespace osb::sandboxd
