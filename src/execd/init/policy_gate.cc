#include "execd/init/policy_gate.h"

#include <arpa/inet.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/egress_environment.h"
#include "base/unique_fd.h"
#include "execd/init/trust_store.h"
#include "execd/run/environment.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  out.sin_port = htons(port);
  return out;
}

Result<UniqueFd> tcp_socket() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return sys::from_errno("socket", errno);
  return fd;
}

// False: no program listens there.
Result<bool> sidecar_listens(std::uint16_t port) {
  auto fd = tcp_socket();
  if (!fd) return Failure(fd.error());
  const linger at_once{.l_onoff = 1, .l_linger = 0};  // the port is free as soon as the socket is closed
  (void)::setsockopt(fd->get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  const sockaddr_in to = loopback(port);
  if (::connect(fd->get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) < 0) {
    if (errno == ECONNREFUSED) return false;
    return sys::from_errno("connect to the egress sidecar", errno);
  }
  sockaddr_in own{};
  socklen_t size = sizeof own;
  if (::getsockname(fd->get(), reinterpret_cast<sockaddr*>(&own), &size) < 0) {
    return sys::from_errno("address of a socket", errno);
  }
  // The kernel may have chosen this very port for our side, and a socket can connect to itself.
  return own.sin_port != to.sin_port;
}

}  // namespace

Result<void> wait_for_policy(PolicyGate ports) {
  auto gate = tcp_socket();
  if (!gate) return Failure(gate.error());
  const int on = 1;  // connections that have ended do not hold the port; a listener does
  (void)::setsockopt(gate->get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in own = loopback(ports.gate);
  if (::bind(gate->get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) < 0) {
    return sys::from_errno("bind port " + std::to_string(ports.gate), errno);
  }
  if (::listen(gate->get(), 1) < 0) return sys::from_errno("listen", errno);
  const auto there = sidecar_listens(ports.sidecar);
  if (!there) return Failure(there.error());
  if (*there) return {};
  for (;;) {
    if (const UniqueFd sidecar(::accept4(gate->get(), nullptr, nullptr, SOCK_CLOEXEC)); sidecar.get() >= 0) return {};
    if (errno != EINTR && errno != ECONNABORTED) return sys::from_errno("wait for the egress sidecar", errno);
  }
}

int run_behind_policy(char** argv) {
  if (auto enforced = wait_for_policy(); !enforced) {
    std::fprintf(stderr, "execd: network policy: %s\n", enforced.error().message.c_str());
    return 1;
  }
  Environment env = parse_environ(environ);
  trust_given_authority(env);
  ::unsetenv(std::string(api::kAuthorityVariable).c_str());
  for (const auto& [name, value] : env) ::setenv(name.c_str(), value.c_str(), 1);
  ::execv(argv[2], argv + 2);
  const int failed = errno;
  std::fprintf(stderr, "execd: %s: %s\n", argv[2], std::strerror(failed));
  return failed == ENOENT ? 127 : 126;
}

}  // namespace osb::execd
