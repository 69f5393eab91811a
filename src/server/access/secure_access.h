#pragma once

#include <string>
#include <string_view>

#include "http/message.h"
#include "server/store/record.h"

namespace osb::server {

inline constexpr std::string_view kSecureAccessHeader = "OpenSandbox-Secure-Access";

// The token that requests to the ports of a sandbox made with `secureAccess` carry; "" for other sandboxes. It follows
// from execd's token, so it lasts as long as the sandbox, also when the record is lost.
std::string secure_access_token(const SandboxRecord& record);

// Whether the request may pass: the sandbox has no such token, or the request shows it. Takes the same time for every
// wrong token.
bool has_secure_access(const http::Request& request, const SandboxRecord& record);

}  // namespace osb::server
