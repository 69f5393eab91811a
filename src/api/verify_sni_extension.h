#pragma once

#include <map>
#include <string>
#include <string_view>

namespace osb::api {

// A create's extension: connections to ports 80 and 443 must name a host that the network policy allows, so that hosts
// which share an address with an allowed one stay closed. "true" or "false".
inline constexpr std::string_view kVerifySniExtension = "policy.verify_sni";

inline bool wants_verified_sni(const std::map<std::string, std::string>& extensions) {
  const auto found = extensions.find(std::string(kVerifySniExtension));
  return found != extensions.end() && found->second == "true";
}

}  // namespace osb::api
