#pragma once

#include <string>
#include <string_view>

#include "http/message.h"

namespace osb::server {

// Asks for OPEN-SANDBOX-API-KEY before anything else happens; a blank `key` asks for nothing. Exempt are health and
// documentation, and the proxy, whose targets have secrets of their own. /metrics takes the key as a bearer token too.
// `key` outlives the handler and may be changed between requests, on the loop.
http::Handler with_api_key(http::Handler inner, const std::string& key);

// Whether a path needs no key. Compared segment by segment, after decoding, as the router does; a ".." anywhere in it
// needs the key.
bool is_open_path(std::string_view path);

// Takes the same time wherever the two differ.
bool same_secret(std::string_view given, std::string_view wanted);

}  // namespace osb::server
