#include "runtime/docker/port_pool.h"

#include <sys/socket.h>

#include "http/socket_address.h"

namespace osb::runtime {
namespace {

UniqueFd bind_to(const std::string& address, std::uint16_t port) {
  const auto wanted = http::to_sockaddr(http::Address::tcp(address, port));
  if (!wanted) return UniqueFd();
  UniqueFd socket(::socket(wanted->get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (socket.get() < 0 || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
      ::bind(socket.get(), wanted->get(), wanted->length) < 0) {
    return UniqueFd();
  }
  return socket;
}

}  // namespace

Result<std::uint16_t> PortPool::take() {
  // From anywhere in the range, once around.
  const int size = range_.last - range_.first + 1;
  const int begin = std::uniform_int_distribution<int>(0, size - 1)(random_);
  for (int i = 0; i < size; ++i) {
    const auto port = static_cast<std::uint16_t>(range_.first + (begin + i) % size);
    if (taken_.contains(port)) continue;
    UniqueFd socket;
    if (bind_) {
      socket = bind_to(address_, port);
      if (socket.get() < 0) continue;
    }
    taken_.emplace(port, std::move(socket));
    return port;
  }
  return fail(Code::Exhausted, "no free port on " + address_ + " from " + std::to_string(range_.first) + " to " +
                                   std::to_string(range_.last) + " ([docker] port_range_min, port_range_max)");
}

void PortPool::settle(std::uint16_t port) {
  if (const auto found = taken_.find(port); found != taken_.end()) found->second.reset();
}

void PortPool::note(std::uint16_t port) {
  if (port != 0) taken_.try_emplace(port);
}

void PortPool::give_back(std::uint16_t port) { taken_.erase(port); }

}  // namespace osb::runtime
