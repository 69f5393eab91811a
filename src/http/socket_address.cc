#include "http/socket_address.h"

#include <arpa/inet.h>
#include <cstring>
#include <netinet/in.h>
#include <sys/un.h>

#include "base/parse_number.h"

namespace osb::http {

Result<Address> Address::parse(std::string_view text) {
  const auto bad = [&](const char* why) {
    return fail(Code::InvalidRequest, "address '" + std::string(text) + "': " + why);
  };
  if (text.starts_with("unix:")) {
    if (text.size() == 5) return bad("the path of the socket is missing");
    return Address::unix_socket(std::string(text.substr(5)));
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad("expected IP:PORT or unix:PATH");
  std::string_view host = text.substr(0, colon);
  const auto port = parse_number<std::uint16_t>(text.substr(colon + 1));
  if (!port) return bad("the port is not a number up to 65535");
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  Address out = Address::tcp(std::string(host), *port);
  if (auto checked = to_sockaddr(out); !checked) return bad("not an IP address");
  return out;
}

std::string Address::to_string() const {
  if (!unix_path.empty()) return "unix:" + unix_path;
  const std::string digits = std::to_string(port);
  return ip.contains(':') ? "[" + ip + "]:" + digits : ip + ":" + digits;
}

Result<SocketAddress> to_sockaddr(const Address& address) {
  SocketAddress out;
  if (!address.unix_path.empty()) {
    auto* un = reinterpret_cast<sockaddr_un*>(&out.storage);
    if (address.unix_path.size() >= sizeof un->sun_path) {
      return fail(Code::InvalidRequest, "socket path '" + address.unix_path + "' is longer than 107 bytes");
    }
    un->sun_family = AF_UNIX;
    std::memcpy(un->sun_path, address.unix_path.c_str(), address.unix_path.size() + 1);
    out.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.unix_path.size() + 1);
    return out;
  }
  auto* v4 = reinterpret_cast<sockaddr_in*>(&out.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&out.storage);
  if (::inet_pton(AF_INET, address.ip.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(address.port);
    out.length = sizeof *v4;
  } else if (::inet_pton(AF_INET6, address.ip.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(address.port);
    out.length = sizeof *v6;
  } else {
    return fail(Code::InvalidRequest, "'" + address.ip + "' is not an IP address");
  }
  return out;
}

Address from_sockaddr(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    ::inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
    return Address::tcp(text, ntohs(v4->sin_port));
  }
  if (address.storage.ss_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    ::inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
    return Address::tcp(text, ntohs(v6->sin6_port));
  }
  const auto* un = reinterpret_cast<const sockaddr_un*>(&address.storage);
  return Address::unix_socket(address.length > offsetof(sockaddr_un, sun_path) ? un->sun_path : "");
}

std::string peer_name(int socket) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (::getpeername(socket, address.get(), &address.length) < 0 || address.storage.ss_family == AF_UNIX) return "unix";
  return from_sockaddr(address).ip;
}

}  // namespace osb::http
