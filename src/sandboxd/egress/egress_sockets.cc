#include "sandboxd/egress/egress_sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

// The same after a restart where possible: tracked questions of sandboxes are led to it.
constexpr std::uint16_t kPreferred = 15353, kPreferredIntercept = 15380;
constexpr int kTries = 32;
constexpr int kBacklog = 512;
constexpr int kQueueBytes = 4 << 20;

Result<UniqueFd> bind_to(int type, std::uint32_t address, std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return sys::from_errno("socket", errno);
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_IP, IP_FREEBIND, &on, sizeof on);
  if (type == SOCK_STREAM) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(address);
  where.sin_port = htons(port);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) < 0)
    return sys::from_errno("bind port " + std::to_string(port) + " of " + format_ipv4(address), errno);
  return fd;
}

Result<std::uint16_t> port_of(const UniqueFd& fd) {
  sockaddr_in where{};
  socklen_t size = sizeof where;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&where), &size) < 0)
    return sys::from_errno("getsockname", errno);
  return ntohs(where.sin_port);
}

}  // namespace

Result<void> check_egress_program(const std::filesystem::path& program) {
  struct stat about{};
  if (::stat(program.c_str(), &about) < 0) {
    return fail(Code::Unsupported, "there is no program " + program.string() +
                                       ": install opensandbox-egress next to sandboxd, or set [egress] program");
  }
  // Its directories need not let others pass: sandboxd hands it over open.
  if ((about.st_mode & S_IXOTH) == 0) {
    return fail(Code::Unsupported, "only some users can execute " + program.string() + ": chmod o+x " + program.string());
  }
  return {};
}

Result<EgressSockets> bind_egress_sockets(const NetworkConfig& config) {
  Result<EgressSockets> made = fail(Code::Internal, "no port tried");
  for (int i = 0; i < kTries; ++i) {
    auto udp = bind_to(SOCK_DGRAM, config.gateway(), i == 0 ? kPreferred : 0);
    if (!udp) {
      made = Failure(udp.error());
      continue;
    }
    const auto port = port_of(*udp);
    if (!port) return Failure(port.error());
    auto tcp = bind_to(SOCK_STREAM, config.gateway(), *port);
    if (!tcp || ::listen(tcp->get(), kBacklog) < 0) {
      made = tcp ? Result<EgressSockets>(sys::from_errno("listen", errno)) : Failure(tcp.error());
      continue;
    }
    ::setsockopt(udp->get(), SOL_SOCKET, SO_RCVBUFFORCE, &kQueueBytes, sizeof kQueueBytes);
    auto intercept = bind_to(SOCK_STREAM, config.gateway(), kPreferredIntercept);
    if (!intercept) intercept = bind_to(SOCK_STREAM, config.gateway(), 0);
    if (!intercept) return Failure(intercept.error());
    if (::listen(intercept->get(), kBacklog) < 0) return sys::from_errno("listen", errno);
    const auto intercept_port = port_of(*intercept);
    if (!intercept_port) return Failure(intercept_port.error());
    return EgressSockets{.udp = std::move(*udp),
                         .tcp = std::move(*tcp),
                         .intercept = std::move(*intercept),
                         .port = *port,
                         .intercept_port = *intercept_port};
  }
  return with_context("sockets of the egress process", made.error());
}

}  // namespace osb::sandboxd
