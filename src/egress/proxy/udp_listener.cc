#include "egress/proxy/udp_listener.h"

#include <algorithm>
#include <sys/socket.h>

#include "sys/syscall.h"

namespace osb::egress {
namespace {

constexpr std::size_t kQuestionSize = 1024;  // a question with a name of full length and some EDNS options
constexpr std::size_t kLongestReply = 4096;
constexpr int kReceiveBuffer = 2 << 20;

}  // namespace

struct UdpListener::Room {
  std::array<std::array<char, kQuestionSize>, kBatch> bytes;
  std::array<SocketAddress, kBatch> from;
  std::array<iovec, kBatch> pieces;
  std::array<mmsghdr, kBatch> messages;
};

UdpListener::UdpListener(net::any_io_executor executor, Received received, std::function<void()> drained)
    : stream_(executor),
      received_(std::move(received)),
      drained_(std::move(drained)),
      room_(std::make_unique<Room>()) {}

UdpListener::~UdpListener() = default;

Result<std::shared_ptr<UdpListener>> UdpListener::open(net::any_io_executor executor, UniqueFd socket,
                                                       Received received, std::function<void()> drained) {
  std::shared_ptr<UdpListener> out(new UdpListener(std::move(executor), std::move(received), std::move(drained)));
  // The kernel's default holds some hundred questions. Without privilege the host's limit stays; that is no error.
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBuffer, sizeof kReceiveBuffer) < 0) {
    (void)::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof kReceiveBuffer);
  }
  boost::system::error_code error;
  out->stream_.assign(socket.get(), error);
  if (error) return sys::from_errno("watch the UDP socket", error.value());
  (void)socket.release();
  out->wait();
  return out;
}

void UdpListener::close() {
  boost::system::error_code ignored;
  stream_.close(ignored);
}

void UdpListener::wait() {
  stream_.async_wait(net::posix::stream_descriptor::wait_read,
                     [weak = weak_from_this()](const boost::system::error_code& error) {
                       const auto self = weak.lock();
                       if (error || !self) return;
                       self->drain();
                       if (self->stream_.is_open()) self->wait();
                     });
}

void UdpListener::drain() {
  Room& room = *room_;
  for (std::size_t i = 0; i < kBatch; ++i) {
    room.pieces[i] = {room.bytes[i].data(), room.bytes[i].size()};
    room.messages[i] = {};
    room.messages[i].msg_hdr.msg_iov = &room.pieces[i];
    room.messages[i].msg_hdr.msg_iovlen = 1;
    room.messages[i].msg_hdr.msg_name = &room.from[i].any;
    room.messages[i].msg_hdr.msg_namelen = sizeof(sockaddr_in6);
  }
  // One batch a turn: answers of upstream servers come in between.
  const int got = ::recvmmsg(stream_.native_handle(), room.messages.data(), kBatch, MSG_DONTWAIT, nullptr);
  ReplyPath reply{.channel = shared_from_this(), .to = {}};
  for (int i = 0; i < got; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const msghdr& header = room.messages[at].msg_hdr;
    if ((header.msg_flags & MSG_TRUNC) != 0) continue;  // no question is so long
    room.from[at].size = header.msg_namelen;
    reply.to = room.from[at];
    received_(room.from[at], {room.bytes[at].data(), room.messages[at].msg_len}, reply);
  }
  drained_();
}

std::size_t UdpListener::limit(const Query& query) const {
  return query.edns ? std::min<std::size_t>(query.udp_size, kLongestReply) : 512;
}

void UdpListener::send(const SocketAddress& to, std::string_view message) {
  if (queued_ == replies_.size()) replies_.emplace_back();
  replies_[queued_].to = to;
  replies_[queued_].message.assign(message);
  ++queued_;
  if (queued_ >= kBatch) flush();
}

void UdpListener::flush() {
  std::array<iovec, kBatch> pieces;
  std::array<mmsghdr, kBatch> messages;
  for (std::size_t i = 0; i < queued_; ++i) {
    pieces[i] = {replies_[i].message.data(), replies_[i].message.size()};
    messages[i] = {};
    messages[i].msg_hdr.msg_iov = &pieces[i];
    messages[i].msg_hdr.msg_iovlen = 1;
    messages[i].msg_hdr.msg_name = &replies_[i].to.any;
    messages[i].msg_hdr.msg_namelen = replies_[i].to.size;
  }
  std::size_t sent = 0;
  while (sent < queued_ && stream_.is_open()) {
    const int done = ::sendmmsg(stream_.native_handle(), messages.data() + sent, static_cast<unsigned>(queued_ - sent),
                                MSG_DONTWAIT | MSG_NOSIGNAL);
    // A packet that cannot be sent is lost, like any packet: its asker tries again.
    if (done < 0 && errno != EINTR) ++sent;
    if (done > 0) sent += static_cast<std::size_t>(done);
  }
  queued_ = 0;
}

}  // namespace osb::egress
