#pragma once

#include <string>
#include <string_view>

namespace opensandbox {

// A server as configuration names it: "host[:port]" or a URL, whose scheme beats `protocol`.
struct ServerAddress {
  std::string domain;
  std::string protocol = "http";
};

// Whether a key that belongs to one server may be sent to another address: only to the same host and port, and from
// http to https but not back. localhost and 127.0.0.1 are the same host.
bool key_may_go(const ServerAddress& owner, const ServerAddress& target);

}  // namespace opensandbox
