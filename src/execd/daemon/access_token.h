#pragma once

#include <string>
#include <string_view>

#include "http/message.h"

namespace osb::execd {

inline constexpr std::string_view kAccessTokenHeader = "X-EXECD-ACCESS-TOKEN";

// In time that depends on the lengths only, not on where the strings differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

// Lets through what carries the token, whatever its path; all else gets 401. An empty token lets everything through.
http::Handler with_access_token(std::string token, http::Handler inner);

}  // namespace osb::execd
