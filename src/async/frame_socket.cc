#include "async/frame_socket.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <sys/socket.h>
#include <sys/uio.h>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "sys/syscall.h"

namespace osb {
namespace {

constexpr std::uint32_t kHasDescriptor = 0x8000'0000;
constexpr std::size_t kHeader = sizeof(std::uint32_t);
constexpr std::size_t kReadSize = 16 * 1024;
constexpr std::size_t kMaxReceived = 16;  // descriptors of one recvmsg; we send one at a time

std::uint32_t read_length(std::string_view bytes) {
  std::uint32_t length = 0;
  for (std::size_t i = kHeader; i-- > 0;) length = length << 8 | static_cast<std::uint8_t>(bytes[i]);
  return length;
}

std::string make_frame(std::string_view body, bool with_descriptor) {
  auto length = static_cast<std::uint32_t>(body.size()) | (with_descriptor ? kHasDescriptor : 0);
  std::string out;
  out.reserve(kHeader + body.size());
  for (std::size_t i = 0; i < kHeader; ++i, length >>= 8) out.push_back(static_cast<char>(length & 0xff));
  return out.append(body);
}

struct Outgoing {
  std::string bytes;
  std::size_t sent = 0;
  UniqueFd descriptor;
};

// errno, or 0 with `sent` moved on. The descriptor goes with the first byte.
int send_piece(int socket, Outgoing& out) {
  iovec data{out.bytes.data() + out.sent, out.bytes.size() - out.sent};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (out.sent == 0 && out.descriptor.get() >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = out.descriptor.get();
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) return errno;
  out.sent += static_cast<std::size_t>(sent);
  if (sent > 0) out.descriptor.reset();
  return 0;
}

}  // namespace

struct FrameSocket::State : std::enable_shared_from_this<State> {
  explicit State(const net::any_io_executor& executor) : stream(executor) {}

  // -1: nothing to read now; 0: the end; -2: errno is set.
  ssize_t receive();
  Result<std::optional<Frame>> take_frame();
  void flush();

  net::posix::stream_descriptor stream;
  std::string in;
  std::deque<UniqueFd> descriptors;  // received, in order, not yet given to their frames
  std::deque<Outgoing> out;
  std::size_t queued = 0;
  bool waiting = false;  // for room
  int broken = 0;        // errno of the first failed write
};

ssize_t FrameSocket::State::receive() {
  const std::size_t old = in.size();
  in.resize(old + kReadSize);
  iovec data{in.data() + old, kReadSize};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxReceived * sizeof(int))];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(stream.native_handle(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const int error = errno;
  in.resize(old + (got > 0 ? static_cast<std::size_t>(got) : 0));
  if (got < 0) {
    errno = error;
    return error == EAGAIN || error == EINTR ? -1 : -2;
  }
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      descriptors.emplace_back(fd);
    }
  }
  return got;
}

Result<std::optional<FrameSocket::Frame>> FrameSocket::State::take_frame() {
  if (in.size() < kHeader) return std::nullopt;
  const std::uint32_t word = read_length(in);
  const std::size_t length = word & ~kHasDescriptor;
  if (length > kMaxFrame) return fail(Code::TooLarge, "frame: longer than " + std::to_string(kMaxFrame) + " bytes");
  if (in.size() < kHeader + length) return std::nullopt;
  Frame frame;
  if ((word & kHasDescriptor) != 0) {
    if (descriptors.empty()) return fail(Code::InvalidRequest, "frame: its descriptor is missing");
    frame.descriptor = std::move(descriptors.front());
    descriptors.pop_front();
  }
  frame.body = in.substr(kHeader, length);
  in.erase(0, kHeader + length);
  return frame;
}

void FrameSocket::State::flush() {
  while (!out.empty() && broken == 0) {
    const int error = send_piece(stream.native_handle(), out.front());
    if (error == EINTR) continue;
    if (error == EAGAIN) break;
    if (error != 0) {
      broken = error;
      break;
    }
    if (out.front().sent < out.front().bytes.size()) continue;
    queued -= out.front().bytes.size();
    out.pop_front();
  }
  if (out.empty() || broken != 0 || waiting) return;
  waiting = true;
  stream.async_wait(net::posix::stream_descriptor::wait_write,
                    [self = shared_from_this()](const boost::system::error_code& error) {
                      self->waiting = false;
                      if (!error) self->flush();
                    });
}

FrameSocket::FrameSocket(std::shared_ptr<State> state) : state_(std::move(state)) {}
FrameSocket::FrameSocket(FrameSocket&&) noexcept = default;
FrameSocket& FrameSocket::operator=(FrameSocket&& other) noexcept {
  if (state_) close();
  state_ = std::move(other.state_);
  return *this;
}
FrameSocket::~FrameSocket() {
  if (state_) close();
}

Result<FrameSocket> FrameSocket::open(net::any_io_executor executor, UniqueFd socket) {
  auto state = std::make_shared<State>(std::move(executor));
  boost::system::error_code error;
  state->stream.assign(socket.get(), error);
  if (error) return sys::from_errno("frame socket", error.value());
  (void)socket.release();
  return FrameSocket(std::move(state));
}

net::awaitable<Result<std::optional<FrameSocket::Frame>>> FrameSocket::read() { return read_on(state_); }

net::awaitable<Result<std::optional<FrameSocket::Frame>>> FrameSocket::read_on(std::shared_ptr<State> state) {
  for (;;) {
    auto frame = state->take_frame();
    if (!frame || *frame) co_return frame;
    if (!state->stream.is_open()) co_return fail(Code::Cancelled, "read frame: closed");
    const ssize_t got = state->receive();
    if (got > 0) continue;
    if (got == -2) co_return sys::from_errno("read frame", errno);
    if (got == 0 && !state->in.empty()) co_return fail(Code::InvalidRequest, "read frame: the stream ended inside it");
    if (got == 0) co_return std::optional<Frame>();
    const auto [error] =
        co_await state->stream.async_wait(net::posix::stream_descriptor::wait_read, net::as_tuple(net::use_awaitable));
    if (error) co_return fail(Code::Cancelled, "read frame: cancelled");
  }
}

Result<void> FrameSocket::send(std::string_view body, UniqueFd descriptor) {
  State& state = *state_;
  if (body.size() > kMaxFrame) return fail(Code::TooLarge, "send frame: longer than 4 MiB");
  if (!state.stream.is_open()) return fail(Code::Unavailable, "send frame: closed");
  if (state.broken != 0) return sys::from_errno("send frame", state.broken);
  if (state.queued + body.size() > kMaxQueued) {
    return fail(Code::Exhausted, "send frame: the other process does not read");
  }
  const bool with_descriptor = descriptor.get() >= 0;
  state.out.push_back({make_frame(body, with_descriptor), 0, std::move(descriptor)});
  state.queued += state.out.back().bytes.size();
  if (!state.waiting) state.flush();
  if (state.broken != 0) return sys::from_errno("send frame", state.broken);
  return {};
}

void FrameSocket::close() {
  if (!state_->stream.is_open()) return;
  ::shutdown(state_->stream.native_handle(), SHUT_RDWR);
  boost::system::error_code ignored;
  state_->stream.close(ignored);
}

}  // namespace osb
