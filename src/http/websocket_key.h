#pragma once

#include <string>
#include <string_view>

#include "http/websocket_frame.h"

namespace osb::http::ws {

// The proof of the opening handshake. RFC 6455 asks for SHA-1, which protects nothing here; the code is our own because
// execd links no crypto library.
std::string accept_for(std::string_view key);
// 16 random bytes in base64.
std::string new_key();
bool is_key(std::string_view text);

// Unpredictable, so that a page's script cannot choose what goes over the wire (RFC 6455, 10.3).
Mask new_mask();

}  // namespace osb::http::ws
