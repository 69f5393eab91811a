#pragma once

#include <string>
#include <sys/socket.h>

#include "http/transport.h"

namespace osb::http {

// An Address as the kernel wants it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Result<SocketAddress> to_sockaddr(const Address& address);
Address from_sockaddr(const SocketAddress& address);
// The IP address at the other end of a connected socket, or "unix".
std::string peer_name(int socket);

}  // namespace osb::http
