#pragma once

#include <string>
#include <string_view>

#include "http/headers.h"

namespace osb::image {

// The challenge of a 401. Bearer wins if a registry offers both.
struct Challenge {
  enum class Scheme { None, Basic, Bearer } scheme = Scheme::None;
  std::string realm;
  std::string service;
};
Challenge parse_challenge(const http::Headers& headers);

// "Basic dXNlcjpwYXNz"
std::string basic_authorization(std::string_view username, std::string_view password);

}  // namespace osb::image
