#pragma once

#include <arpa/inet.h>
#include <cstring>
#include <functional>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "kernel/netlink.h"
#include "kernel/netlink_route.h"
#include "sandboxd/network/firewall.h"
#include "sandboxd/network/slot_pool.h"
#include "sys/syscall.h"

// A small world for tests, so that the machine's own network is never touched: the "host" is a network namespace of a
// thread, behind it is an "internet" in another one, which has no route back to sandboxes.
//
//   sandbox 10.90.0.x -- host 198.51.100.2 -- 198.51.100.1 internet, with 203.0.113.10 and 169.254.169.254
namespace osb::sandboxd::testing {

inline constexpr std::uint32_t kHostAddress = 0xc6336402;
inline constexpr std::uint32_t kInternetNeighbour = 0xc6336401;
inline constexpr std::uint32_t kServer = 0xcb00710a;
inline constexpr std::uint32_t kMetadata = 0xa9fea9fe;
inline constexpr std::chrono::milliseconds kLong{30'000};  // for events that a loaded host is late with
inline constexpr std::chrono::milliseconds kShort{250};  // for what must not happen: on one machine it would be at once

template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}
inline void must(Result<void> result) {
  if (!result) throw std::runtime_error(result.error().message);
}

// Runs the body on a thread in a network namespace of its own.
inline void in_own_network(const std::function<void()>& body) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: makes network namespaces";
  std::thread([&] {
    try {
      if (::unshare(CLONE_NEWNET) < 0) throw std::runtime_error("unshare network");
      body();
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
  }).join();
}

inline UniqueFd this_network() { return must(sys::open_at(AT_FDCWD, "/proc/thread-self/ns/net", O_RDONLY)); }

inline UniqueFd new_network() {
  return must(([] {
    Result<UniqueFd> made;
    std::thread([&] {
      if (::unshare(CLONE_NEWNET) < 0)
        made = sys::from_errno("unshare network", errno);
      else
        made = sys::open_at(AT_FDCWD, "/proc/thread-self/ns/net", O_RDONLY);
    }).join();
    return made;
  })());
}

inline sockaddr_in ip_address(std::uint32_t address, std::uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  out.sin_addr.s_addr = htonl(address);
  return out;
}

inline UniqueFd socket_in(int netns, int type, int family = AF_INET, int protocol = 0) {
  return must(kernel::in_network_namespace(netns, [&]() -> Result<UniqueFd> {
    UniqueFd fd(::socket(family, type | SOCK_CLOEXEC, protocol));
    if (!fd) return sys::from_errno("socket", errno);
    return fd;
  }));
}

inline void bind_to(const UniqueFd& fd, std::uint32_t address, std::uint16_t port) {
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in where = ip_address(address, port);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) < 0)
    throw std::runtime_error("bind: " + std::string(std::strerror(errno)));
}

inline UniqueFd listen_in(int netns, std::uint32_t address, std::uint16_t port) {
  UniqueFd fd = socket_in(netns, SOCK_STREAM);
  bind_to(fd, address, port);
  if (::listen(fd.get(), 16) < 0) throw std::runtime_error("listen");
  return fd;
}

inline UniqueFd udp_in(int netns, std::uint32_t address, std::uint16_t port) {
  UniqueFd fd = socket_in(netns, SOCK_DGRAM);
  bind_to(fd, address, port);
  return fd;
}

inline bool readable(const UniqueFd& fd, std::chrono::milliseconds timeout) {
  pollfd wanted{.fd = fd.get(), .events = POLLIN, .revents = 0};
  return ::poll(&wanted, 1, static_cast<int>(timeout.count())) == 1;
}

// Not connected: nothing.
inline UniqueFd connect_from(int netns, std::uint32_t address, std::uint16_t port, std::chrono::milliseconds timeout) {
  UniqueFd fd = socket_in(netns, SOCK_STREAM | SOCK_NONBLOCK);
  const sockaddr_in where = ip_address(address, port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) < 0) {
    if (errno != EINPROGRESS) return UniqueFd();
    pollfd wanted{.fd = fd.get(), .events = POLLOUT, .revents = 0};
    if (::poll(&wanted, 1, static_cast<int>(timeout.count())) != 1) return UniqueFd();
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return UniqueFd();
  }
  ::fcntl(fd.get(), F_SETFL, 0);
  return fd;
}

struct Accepted {
  UniqueFd fd{};
  std::string from{};
};
inline Accepted accept_from(const UniqueFd& listener) {
  if (!readable(listener, kLong)) return {};
  sockaddr_in peer{};
  socklen_t size = sizeof peer;
  UniqueFd fd(::accept4(listener.get(), reinterpret_cast<sockaddr*>(&peer), &size, SOCK_CLOEXEC));
  return {.fd = std::move(fd), .from = format_ipv4(ntohl(peer.sin_addr.s_addr))};
}

inline bool passes(const UniqueFd& from, const UniqueFd& to) {
  if (::send(from.get(), "x", 1, MSG_NOSIGNAL) != 1 || !readable(to, kLong)) return false;
  char byte = 0;
  return ::recv(to.get(), &byte, 1, 0) == 1 && byte == 'x';
}

inline void send_udp(const UniqueFd& from, std::uint32_t address, std::uint16_t port, const std::string& text) {
  const sockaddr_in where = ip_address(address, port);
  ::sendto(from.get(), text.data(), text.size(), 0, reinterpret_cast<const sockaddr*>(&where), sizeof where);
}

// The next datagram; empty if none comes.
inline std::string receive_udp(const UniqueFd& at) {
  char buffer[256];
  if (!readable(at, kLong)) return {};
  const ssize_t size = ::recv(at.get(), buffer, sizeof buffer, 0);
  return size < 0 ? std::string() : std::string(buffer, static_cast<std::size_t>(size));
}

// Puts a UDP packet on the wire of a slot as it is: any source, any destination.
void inject_udp(const Slot& slot, std::uint32_t source, std::uint32_t destination, std::uint16_t port,
                const std::string& text);

class World {
 public:
  explicit World(NetworkConfig config = small_config());

  // Eight addresses would do, but not for long tests.
  static NetworkConfig small_config();

  void start();    // firewall and pool, as the daemon does it
  void restart();  // forgets both, as a daemon that was killed; the caller goes on with firewall and pool
  Slot take(NetworkMode mode = NetworkMode::Bridge) { return must(pool->take(mode)); }

  std::vector<std::string> our_links();
  std::size_t elements(const std::string& set);
  // Until no interface of a slot is left but `kept`.
  void wait_for_links(std::size_t kept);

  NetworkConfig config;
  UniqueFd host;
  UniqueFd internet;
  std::unique_ptr<Firewall> firewall;
  std::unique_ptr<SlotPool> pool;
};

// Runs the body in a world of its own that has started.
inline void in_world(const std::function<void(World&)>& body) {
  in_own_network([&] {
    World world;
    world.start();
    body(world);
  });
}

}  // namespace osb::sandboxd::testing
