#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace osb::redis {

// redis://[user[:password]@]host[:port][/database], rediss:// for TLS, unix:/path or unix:///path with ?db=N.
struct Address {
  std::string origin;  // for a connector
  std::string user, password;
  int database = 0;
};

// Errors never repeat the text: it may hold a password.
Result<Address> parse_address(std::string_view url);

}  // namespace osb::redis
