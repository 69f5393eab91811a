#include "egress/proxy/endpoint.h"

#include <cstring>

#include "base/parse_number.h"

namespace osb::egress {

Result<Endpoint> parse_endpoint(std::string_view text, std::uint16_t default_port) {
  Endpoint out{.port = default_port};
  std::string_view host = text;
  std::string_view port;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return fail(Code::InvalidRequest, "name server: ']' is missing");
    host = text.substr(1, end - 1);
    port = text.substr(end + 1);
  } else if (text.find(':') == text.rfind(':') && text.contains(':')) {
    host = text.substr(0, text.find(':'));
    port = text.substr(text.find(':'));
  }
  const auto address = parse_ip_address(host);
  if (!address) {
    return fail(Code::InvalidRequest, "name server '" + std::string(text) + "': expected an IP address, not a name");
  }
  out.address = *address;
  if (port.empty()) return out;
  const auto number = port.starts_with(':') ? parse_number<std::uint16_t>(port.substr(1)) : std::nullopt;
  if (!number || *number == 0) {
    return fail(Code::InvalidRequest, "name server '" + std::string(text) + "': expected a port from 1 to 65535");
  }
  out.port = *number;
  return out;
}

std::string format_endpoint(const Endpoint& endpoint) {
  const std::string address = format_ip_address(endpoint.address);
  return (endpoint.address.v6 ? "[" + address + "]" : address) + ":" + std::to_string(endpoint.port);
}

SocketAddress::SocketAddress(const Endpoint& endpoint) : v6{} {
  if (endpoint.address.v6) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(endpoint.port);
    std::memcpy(&v6.sin6_addr, endpoint.address.bytes.data(), 16);
    size = sizeof v6;
    return;
  }
  v4.sin_family = AF_INET;
  v4.sin_port = htons(endpoint.port);
  std::memcpy(&v4.sin_addr, endpoint.address.bytes.data(), 4);
  size = sizeof v4;
}

IpAddress SocketAddress::ip() const {
  IpAddress out;
  if (any.sa_family == AF_INET) {
    std::memcpy(out.bytes.data(), &v4.sin_addr, 4);
    return out;
  }
  std::memcpy(out.bytes.data(), &v6.sin6_addr, 16);
  return IpAddress::from_v6(out.bytes);
}

}  // namespace osb::egress
