#include "egress/sidecar/sidecar_sockets.h"

#include <cerrno>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/ports.h"
#include "egress/sidecar/packet_table.h"
#include "sys/syscall.h"

namespace osb::egress {
namespace {

constexpr timeval kGateTime{.tv_sec = 2, .tv_usec = 0};

Endpoint on_loopback(std::uint16_t port) { return {IpAddress::v4(INADDR_LOOPBACK), port}; }

// On the loopback interface.
Result<UniqueFd> bind_to(int type, std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return sys::from_errno("socket", errno);
  const int on = 1;
  // Not for UDP: there two processes could have the port.
  if (type == SOCK_STREAM) (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const SocketAddress address(on_loopback(port));
  if (::bind(fd.get(), &address.any, address.size) < 0) {
    return sys::from_errno("bind 127.0.0.1:" + std::to_string(port), errno);
  }
  if (type == SOCK_STREAM && ::listen(fd.get(), 128) < 0) return sys::from_errno("listen", errno);
  return fd;
}

}  // namespace

Result<UniqueFd> bind_dns(int type) { return bind_to(type, kSidecarDnsPort); }
Result<UniqueFd> listen_for_interception() { return bind_to(SOCK_STREAM, kSidecarInterceptPort); }

Result<UniqueFd> listen_for_api(const Endpoint& endpoint, const SocketIdentity& identity) {
  const SocketAddress address(endpoint);
  UniqueFd fd(::socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return sys::from_errno("socket", errno);
  const int on = 1;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // Connections that it accepts have the same mark.
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_MARK, &identity.mark, sizeof identity.mark) < 0) {
    return sys::from_errno("mark a socket", errno);
  }
  if (::bind(fd.get(), &address.any, address.size) < 0 || ::listen(fd.get(), 128) < 0) {
    return sys::from_errno("listen on " + format_endpoint(endpoint), errno);
  }
  return fd;
}

void open_gate() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kGateTime, sizeof kGateTime);
  const SocketAddress address(on_loopback(kPolicyGatePort));
  // Refused: the sandbox's first program has started long ago, or its gate comes later and finds our DNS port.
  (void)::connect(fd.get(), &address.any, address.size);
}

}  // namespace osb::egress
