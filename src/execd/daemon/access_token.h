#pragma once

#include <string>
#include <string_view>

#include "http/message.h"

namespace osb::execd {

inline constexpr std::string_view kAccessTokenHeader = "X-EXECD-ACCESS-TOKEN";

// In time that depends on the lengths only, not on where the strings differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

// Lets every request with the token through; all others get 401. An empty token lets everything through. For a path
// that begins with "/access-token/" only the token in the path counts, not the headers; the two segments are removed
// from the target before `inner`, and the logs, see it.
http::Handler with_access_token(std::string token, http::Handler inner);

}  // namespace osb::execd
