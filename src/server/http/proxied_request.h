#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "http/client.h"
#include "http/reverse_proxy.h"
#include "server/store/record.h"

namespace osb::server {

// How the client has named the port: by a path of the API's host or by a host name of its own.
enum class NamedBy { Path, Host };

// "[/v1]/sandboxes/{id}/proxy/{port}" of a request that the router has matched.
std::string_view proxy_prefix(const http::Request& request);

// The path and query inside, exactly as they came.
std::string target_inside(const http::Request& request, NamedBy by);

// Port 18080 of a sandbox with a network policy leads to its policy API, outside the sandbox.
bool is_policy_api(const SandboxRecord& record, std::uint16_t port);

// Fields that are for the server, or that the client could forge, do not reach the port. The X-Forwarded family is made
// anew from the connection.
void set_forwarded_fields(http::ProxyTarget& target, const http::Request& request, NamedBy by, std::uint16_t port);

// The Location of an answer as the client reaches it: one that begins with a single '/' gets the prefix in front.
void rewrite_location(http::Headers& headers, std::string_view prefix);

// The prefix that clients see: that of the request, or below the path of `eip`, the server's public address.
std::string public_prefix(const http::Request& request, std::string_view eip);

// Marks failures to connect, so that proxy_failure() tells them from failures of a connected port.
std::unique_ptr<http::Connector> make_marking_connector(std::unique_ptr<http::Connector> inner);

// The reason of an error before anything was sent to the port.
inline constexpr std::string_view kConnectionFailed = "BACKEND_CONNECTION_FAILED";
// 502 BACKEND_CONNECTION_FAILED, 504 BACKEND_TIMEOUT or 502 BACKEND_RESPONSE_FAILED.
http::Response proxy_failure(const Error& why, const std::string& id, std::uint16_t port);

// The same for an answer that execd has made because the port gave it none; other answers stay.
void name_failure_of_execd(http::Response& response, const std::string& id, std::uint16_t port);

}  // namespace osb::server
