#pragma once

#include <arpa/inet.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <string_view>
#include <sys/socket.h>

#include "base/unique_fd.h"

// TCP, over 127.0.0.1 unless another address is named, with plain blocking calls: what measures must cost as little as
// possible. Anything that goes wrong ends the program, a figure with errors in it is no figure.
namespace osb::bench {

[[noreturn]] inline void die(const char* what) {
  std::perror(what);
  std::exit(EXIT_FAILURE);
}

inline sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

inline UniqueFd connect_to(const sockaddr_in& address) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) die("connect");
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

inline UniqueFd connect_to(std::uint16_t port) { return connect_to(loopback(port)); }

// PORT or ADDRESS:PORT.
inline UniqueFd connect_to(const std::string& where) {
  const std::size_t colon = where.find(':');
  if (colon == std::string::npos) return connect_to(static_cast<std::uint16_t>(std::atoi(where.c_str())));
  sockaddr_in address = loopback(static_cast<std::uint16_t>(std::atoi(where.c_str() + colon + 1)));
  if (::inet_pton(AF_INET, where.substr(0, colon).c_str(), &address.sin_addr) != 1) die(where.c_str());
  return connect_to(address);
}

// Port 0: the kernel picks one, see port_of().
inline UniqueFd listen_on(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  const int on = 1;
  if (!fd) die("socket");
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) die("bind");
  if (::listen(fd.get(), 128) != 0) die("listen");
  return fd;
}

inline std::uint16_t port_of(const UniqueFd& listener) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) die("getsockname");
  return ntohs(address.sin_port);
}

inline void send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) die("send");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

}  // namespace osb::bench
