#pragma once

#include <string>
#include <string_view>

#include "http/headers.h"

namespace osb::server {

// Answers of a sandbox's port come to browsers from a host of the server. These functions remove the fields by which a
// page would reach beyond its sandbox.

// Below a path of the API's own host, `prefix`, the page shares its origin with the API and with all other sandboxes:
// fields that hold for a whole origin go, cookies stay below the prefix, and documents get an origin of their own
// (Content-Security-Policy: sandbox).
void confine_to_path(http::Headers& headers, std::string_view prefix);

// On a host name of its own only fields that reach beyond that name go.
void confine_to_host(http::Headers& headers);

// A value of Set-Cookie without Domain, and with a path inside `prefix`, if there is one.
std::string confined_cookie(std::string_view cookie, std::string_view prefix);

}  // namespace osb::server
