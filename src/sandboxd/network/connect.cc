#include "sandboxd/network/connect.h"

#include <algorithm>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <fmt/format.h>

#include "base/deadline.h"
#include "kernel/netlink.h"
#include "sandboxd/network/network_config.h"
#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

Result<UniqueFd> make_socket() {
  UniqueFd made(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!made) return sys::from_errno("socket", errno);
  return made;
}

Failure not_connected(std::uint16_t port, int error) {
  const std::string what = fmt::format("connect to port {} of the sandbox", port);
  if (error == ECONNREFUSED) return fail(Code::Unavailable, what + ": nothing listens there");
  return sys::from_errno(what, error);
}

Result<UniqueFd> connect_socket(Result<UniqueFd> fd, std::uint32_t host, std::uint16_t port,
                                std::chrono::milliseconds timeout) {
  if (!fd) return fd;
  const int on = 1;
  ::setsockopt(fd->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(host);
  if (::connect(fd->get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  if (errno != EINPROGRESS) return not_connected(port, errno);
  const Deadline deadline(timeout);
  for (;;) {
    pollfd wanted{.fd = fd->get(), .events = POLLOUT, .revents = 0};
    const int ready = ::poll(&wanted, 1, static_cast<int>(deadline.left().count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return sys::from_errno("wait for a connection", errno);
    if (ready == 0) return fail(Code::Timeout, fmt::format("connect to port {} of the sandbox: no answer", port));
    break;
  }
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd->get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return not_connected(port, error);
  return fd;
}

}  // namespace

Result<UniqueFd> connect_in_namespace(int netns_fd, std::uint16_t port, std::chrono::milliseconds timeout) {
  // Only the socket is made in there: it stays there, wherever it is used.
  return connect_socket(kernel::in_network_namespace(netns_fd, [] { return make_socket(); }), INADDR_LOOPBACK, port,
                        timeout);
}

Result<UniqueFd> connect_to_address(const std::string& address, std::uint16_t port, std::chrono::milliseconds timeout) {
  const auto host = parse_ipv4(address);
  if (!host) return Failure(host.error());
  return connect_socket(make_socket(), *host, port, timeout);
}

}  // namespace osb::sandboxd
