#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace osb::server {

// The host name of one port of a sandbox, "{id}-{port}.{domain}", in the order of the gateway's names. Each is an
// origin of its own in browsers, and every name below "localhost" leads to this machine without DNS.
struct SandboxHost {
  std::string id;
  std::uint16_t port = 0;
};

// The port that a Host header names; names below it are its own too. Nothing: the host is no sandbox's, or `domain` is
// empty.
std::optional<SandboxHost> parse_sandbox_host(std::string_view host, std::string_view domain);

// "http://{id}-{port}.{domain}[:port of the server]/", for a client that reached the server under `host`. Empty: the
// domain does not lead to this server from there, or the id does not fit a host name.
std::string sandbox_url(std::string_view id, std::uint16_t port, std::string_view host, std::string_view domain);

}  // namespace osb::server
