#pragma once

#include <map>
#include <string>
#include <string_view>

namespace osb::api {

// A create's extension that lets execd make isolated sessions in the sandbox; its only value is "enable".
inline constexpr std::string_view kIsolationExtension = "bootstrap.execd.isolation";

inline bool wants_isolation(const std::map<std::string, std::string>& extensions) {
  const auto found = extensions.find(std::string(kIsolationExtension));
  return found != extensions.end() && found->second == "enable";
}

}  // namespace osb::api
