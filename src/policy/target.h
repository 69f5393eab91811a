#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/error.h"
#include "base/ip_address.h"

namespace osb::policy {

// A host name in lower case without the dot at its end: "api.example.com". Only letters, digits, '-' and '_' are taken:
// names with other bytes never match a rule. The error says what is wrong and does not repeat the text.
Result<std::string> parse_host_name(std::string_view text);

// api.example.com, or *.example.com: every name below example.com, at any depth, but not example.com itself.
struct NameTarget {
  std::string name;  // lower case, without "*."
  bool below = false;

  bool operator==(const NameTarget&) const = default;
};

// Every address: rules that name ports and no target.
struct AnyAddress {
  bool operator==(const AnyAddress&) const = default;
};

using Target = std::variant<NameTarget, IpPrefix, AnyAddress>;

// An address, a network or a name, in this order; a single address is a network of full length. The text has no blanks
// around it and may end with one dot. Refused: targets that nothing can match, such as "*", "a.*.com", "fe80::1%eth0"
// and "10.0.0.0/33".
Result<Target> parse_target(std::string_view text);

}  // namespace osb::policy
