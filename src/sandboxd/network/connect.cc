#include "sandboxd/network/connect.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include "async/timer.h"
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

Result<UniqueFd> begin_connect(Result<UniqueFd> fd, std::uint32_t host, std::uint16_t port) {
  if (!fd) return fd;
  const int on = 1;
  ::setsockopt(fd->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(host);
  if (::connect(fd->get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  if (errno != EINPROGRESS) return not_connected(port, errno);
  return fd;
}

net::awaitable<Result<void>> wait_writable(net::posix::stream_descriptor& socket) {
  const auto [error] =
      co_await socket.async_wait(net::posix::stream_descriptor::wait_write, net::as_tuple(net::use_awaitable));
  if (error) co_return fail(Code::Cancelled, "wait for a connection: " + error.message());
  co_return Result<void>();
}

}  // namespace

Result<UniqueFd> begin_connect_in_namespace(int netns_fd, std::uint16_t port) {
  // Only the socket is made in there: it stays there, wherever it is used.
  return begin_connect(kernel::in_network_namespace(netns_fd, [] { return make_socket(); }), INADDR_LOOPBACK, port);
}

Result<UniqueFd> begin_connect_to_address(const std::string& address, std::uint16_t port) {
  const auto host = parse_ipv4(address);
  if (!host) return Failure(host.error());
  return begin_connect(make_socket(), *host, port);
}

net::awaitable<Result<UniqueFd>> finish_connect(UniqueFd begun, std::uint16_t port, std::chrono::milliseconds timeout) {
  pollfd now{.fd = begun.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&now, 1, 0) == 0) {  // rare: on one machine a connection is there at once
    net::posix::stream_descriptor waiting(co_await net::this_coro::executor, begun.release());
    if (auto ready = co_await with_timeout(wait_writable(waiting), timeout); !ready) {
      if (ready.error().code != Code::Timeout) co_return Failure(ready.error());
      co_return fail(Code::Timeout, fmt::format("connect to port {} of the sandbox: no answer", port));
    }
    begun.reset(waiting.release());
  }
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(begun.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) co_return not_connected(port, error);
  co_return begun;
}

}  // namespace osb::sandboxd
