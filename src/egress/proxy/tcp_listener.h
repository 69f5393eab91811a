#pragma once

#include <functional>
#include <memory>

#include "async/task_group.h"
#include "base/unique_fd.h"
#include "egress/proxy/dns_proxy.h"

namespace osb::egress {

// Questions over TCP: each with its length in front, several in flight on one connection, answered as they come.
class TcpListener {
 public:
  // The sandbox behind an address, or nothing: the connection is closed.
  using FindSandbox = std::function<SandboxPtr(const IpAddress& from)>;

  TcpListener(net::any_io_executor executor, DnsProxy& proxy, FindSandbox find);
  // May be called for several sockets (IPv4 and IPv6).
  void listen(UniqueFd socket);
  net::awaitable<void> close();

 private:
  static constexpr std::size_t kMostConnections = 1024;  // of all sandboxes
  static constexpr std::size_t kMostPerSandbox = 32;
  net::awaitable<void> accept(UniqueFd socket);
  net::awaitable<void> serve(UniqueFd socket, SandboxPtr sandbox, SocketAddress from);

  net::any_io_executor executor_;
  DnsProxy& proxy_;
  FindSandbox find_;
  std::size_t open_ = 0;
  TaskGroup tasks_;
};

}  // namespace osb::egress
