#pragma once

#include <string>

namespace osb {

// 20 bytes. For formats that demand SHA-1 (WebSocket, Java's key stores); it protects nothing.
std::string sha1(std::string text);

}  // namespace osb
