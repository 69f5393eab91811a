#include "runtime/native/native_connector.h"

#include <cerrno>
#include <cstring>
#include <sys/socket.h>

#include <boost/asio/this_coro.hpp>

#include "async/descriptor.h"
#include "async/timer.h"
#include "http/socket_address.h"
#include "http/transport.h"
#include "sys/syscall.h"

namespace osb::runtime {
namespace {

constexpr std::size_t kMaxHead = 16 * 1024;

// The result of recvmsg(), with a descriptor if one came along. A plain read would lose it, which is why this does not
// go through http::Client: the head and the byte that carries the descriptor may arrive together.
struct Received {
  std::size_t bytes = 0;
  UniqueFd fd;
};

Result<Received> receive(int socket, char* into, std::size_t size) {
  iovec data{into, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  Received out;
  const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0) {
    if (errno == EAGAIN || errno == EINTR) return fail(Code::Unavailable, "not yet");
    return sys::from_errno("recvmsg", errno);
  }
  out.bytes = static_cast<std::size_t>(got);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    out.fd.reset(fd);
  }
  return out;
}

Failure refused(std::string_view answer) {
  const std::size_t body = answer.find("\r\n\r\n");
  const std::string_view line = answer.substr(0, answer.find("\r\n"));
  const std::string_view why = body == std::string_view::npos ? line : answer.substr(body + 4);
  return fail(Code::Unavailable, "sandboxd gave no connection: " + std::string(why.empty() ? line : why));
}

net::awaitable<Result<UniqueFd>> ask_for_socket(std::string daemon, std::string path) {
  auto address = http::to_sockaddr(http::Address::unix_socket(daemon));
  if (!address) co_return Failure(address.error());
  // A Unix socket connects at once, or fails with EAGAIN when the daemon's queue is full.
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) co_return sys::from_errno("socket", errno);
  if (::connect(fd.get(), address->get(), address->length) < 0) co_return sys::from_errno("connect " + daemon, errno);
  auto connection = Descriptor::open(co_await net::this_coro::executor, std::move(fd));
  if (!connection) co_return Failure(connection.error());
  const std::string request = "POST " + path +
                              " HTTP/1.1\r\nHost: sandboxd\r\nConnection: Upgrade\r\nUpgrade: opensandbox-socket\r\n"
                              "Content-Length: 0\r\n\r\n";
  if (auto sent = co_await connection->write_all(request); !sent) co_return Failure(sent.error());
  std::string answer;
  for (;;) {
    char buffer[4096];
    auto got = receive(connection->fd(), buffer, sizeof buffer);
    if (!got && got.error().code == Code::Unavailable) {
      if (auto ready = co_await connection->wait_readable(); !ready) co_return Failure(ready.error());
      continue;
    }
    if (!got) co_return Failure(got.error());
    if (got->fd.get() >= 0) co_return std::move(got->fd);
    answer.append(buffer, got->bytes);
    const bool whole = answer.find("\r\n\r\n") != std::string::npos;
    const bool switching = answer.starts_with("HTTP/1.1 101");
    if (got->bytes == 0 || answer.size() > kMaxHead || (whole && !switching)) co_return refused(answer);
  }
}

class NativeConnector final : public http::Connector {
 public:
  explicit NativeConnector(std::string daemon) : daemon_(std::move(daemon)), plain_(http::make_plain_connector()) {}

  net::awaitable<Result<std::unique_ptr<http::Transport>>> connect(std::string origin,
                                                                   std::chrono::milliseconds timeout) override {
    if (!origin.starts_with(kHandedOver)) co_return co_await plain_->connect(std::move(origin), timeout);
    const std::string_view rest = std::string_view(origin).substr(kHandedOver.size());
    const std::size_t slash = rest.find('/');
    const std::string path =
        "/v1/sandboxes/" + std::string(rest.substr(0, slash)) + "/connect/" + std::string(rest.substr(slash + 1));
    auto socket = co_await with_timeout(ask_for_socket(daemon_, path), timeout);
    if (!socket) co_return with_context("connect to the sandbox", socket.error());
    co_return http::make_plain_transport(co_await net::this_coro::executor, std::move(*socket));
  }

 private:
  std::string daemon_;
  std::unique_ptr<http::Connector> plain_;
};

}  // namespace

std::unique_ptr<http::Connector> make_native_connector(std::string sandboxd_socket) {
  return std::make_unique<NativeConnector>(std::move(sandboxd_socket));
}

}  // namespace osb::runtime
