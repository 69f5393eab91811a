#include "egress/proxy/upstream_socket.h"

#include <array>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <vector>

#include "egress/dns/response.h"
#include "sys/syscall.h"

namespace osb::egress {
namespace {

constexpr std::size_t kMessageSize = 4096;
constexpr std::size_t kBatch = 16;

// Room for one batch of messages; all sockets of the loop share it.
struct Room {
  std::array<std::array<char, kMessageSize>, kBatch> bytes;
  std::array<iovec, kBatch> pieces;
  std::array<mmsghdr, kBatch> messages;

  Room() {
    for (std::size_t i = 0; i < kBatch; ++i) {
      pieces[i] = {bytes[i].data(), bytes[i].size()};
      messages[i] = {};
      messages[i].msg_hdr.msg_iov = &pieces[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
  }
};

constexpr std::uint32_t kFirstPort = 10'240, kPorts = 22'000;
constexpr int kBindTries = 32;

bool bind_low(int fd, bool v6) {
  static thread_local Random random;
  for (int i = 0; i < kBindTries; ++i) {
    const auto port = static_cast<std::uint16_t>(kFirstPort + random.u16() % kPorts);
    const SocketAddress own(Endpoint{IpAddress{.v6 = v6}, port});
    if (::bind(fd, &own.any, own.size) == 0) return true;
  }
  return false;
}

}  // namespace

Result<UniqueFd> connect_to(const Endpoint& server, int type, const SocketIdentity& identity) {
  const SocketAddress address(server);
  const int old_user = identity.owner != 0 ? ::setfsuid(identity.owner) : 0;
  UniqueFd fd(::socket(address.any.sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (identity.owner != 0) ::setfsuid(static_cast<uid_t>(old_user));
  if (fd.get() < 0) return sys::from_errno("socket for a name server", errno);
  if (identity.mark != 0 && ::setsockopt(fd.get(), SOL_SOCKET, SO_MARK, &identity.mark, sizeof identity.mark) < 0) {
    return sys::from_errno("mark a socket", errno);
  }
  if (identity.mark != 0 && !bind_low(fd.get(), server.address.v6)) {
    return sys::from_errno("bind a socket for a name server", errno);
  }
  if (::connect(fd.get(), &address.any, address.size) < 0 && errno != EINPROGRESS) {
    return sys::from_errno("connect to name server " + format_endpoint(server), errno);
  }
  return fd;
}

UpstreamSocket::UpstreamSocket(net::any_io_executor executor, Received received, Drained drained)
    : stream_(executor), received_(std::move(received)), drained_(std::move(drained)) {}

Result<std::shared_ptr<UpstreamSocket>> UpstreamSocket::open(net::any_io_executor executor, const Endpoint& server,
                                                             const SocketIdentity& identity, Received received,
                                                             Drained drained) {
  auto fd = connect_to(server, SOCK_DGRAM, identity);
  if (!fd) return Failure(fd.error());
  std::shared_ptr<UpstreamSocket> out(new UpstreamSocket(std::move(executor), std::move(received), std::move(drained)));
  boost::system::error_code error;
  out->stream_.assign(fd->get(), error);
  if (error) return sys::from_errno("watch a socket", error.value());
  (void)fd->release();
  out->wait();
  return out;
}

void UpstreamSocket::close() {
  if (std::exchange(closed_, true)) return;
  boost::system::error_code ignored;
  stream_.close(ignored);
}

void UpstreamSocket::wait() {
  stream_.async_wait(net::posix::stream_descriptor::wait_read,
                     [weak = weak_from_this()](const boost::system::error_code& error) {
                       const auto self = weak.lock();
                       if (error || !self || self->closed_) return;
                       self->drain();
                       if (!self->closed_) self->wait();
                     });
}

void UpstreamSocket::drain() {
  static thread_local Room room;
  for (;;) {
    const int got = ::recvmmsg(stream_.native_handle(), room.messages.data(), kBatch, MSG_DONTWAIT, nullptr);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == ECONNREFUSED) refuse_all();
    if (got <= 0) break;
    for (int i = 0; i < got; ++i) {
      const std::string_view message(room.bytes[static_cast<std::size_t>(i)].data(),
                                     room.messages[static_cast<std::size_t>(i)].msg_len);
      const auto id = message_id(message);
      const auto found = id ? lookups_.find(*id) : lookups_.end();
      if (found == lookups_.end()) {
        ++strangers_;
        continue;
      }
      received_(found->second, message);
    }
    if (got < static_cast<int>(kBatch)) break;
  }
  drained_();
}

void UpstreamSocket::refuse_all() {
  std::vector<std::uint64_t> waiting;
  for (const auto& [id, lookup] : lookups_) waiting.push_back(lookup);
  for (const std::uint64_t lookup : waiting) received_(lookup, {});
}

std::optional<std::uint16_t> UpstreamSocket::reserve(std::uint64_t lookup, Random& random) {
  if (used_up() || lookups_.size() >= kMostAtOnce) return std::nullopt;
  ++uses_;
  for (;;) {
    const std::uint16_t id = random.u16();
    if (lookups_.try_emplace(id, lookup).second) return id;
  }
}

bool UpstreamSocket::send(std::uint16_t id, std::string_view message) {
  for (int tries = 0; tries < 3; ++tries) {
    if (::send(stream_.native_handle(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
    // A refusal is the answer to an earlier packet; this one has not been sent yet.
    if (errno != EINTR && errno != ECONNREFUSED) break;
  }
  lookups_.erase(id);
  return false;
}

}  // namespace osb::egress
