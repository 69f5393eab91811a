#pragma once

#include <string>
#include <string_view>

#include "http/message.h"

namespace osb::execd {

inline constexpr std::string_view kAccessTokenHeader = "X-EXECD-ACCESS-TOKEN";

// In time that depends on the lengths only, not on where the strings differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

// Lets through what carries the token, whatever it asks for; all else gets 401. An empty token lets everything through.
// A path that begins with "/access-token/" is judged by what follows there, whatever the headers say; the two segments
// are gone from the target before `inner`, and with them the logs, see it.
http::Handler with_access_token(std::string token, http::Handler inner);

}  // namespace osb::execd
