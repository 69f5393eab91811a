// The yardstick for bench/http: what one core can answer when nothing is parsed, routed or allocated. One thread, one
// epoll set, level triggered, the same fixed response for every blank line that ends a request head.
//
//   bench_raw_epoll PORT      (listens on 127.0.0.1, prints "listening" when ready)

#include <arpa/inet.h>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <string_view>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <vector>

#include "base/unique_fd.h"

namespace {

constexpr std::string_view kResponse =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 4\r\n\r\npong";

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(EXIT_FAILURE);
}

osb::UniqueFd listen_on_loopback(int port) {
  osb::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) die("socket");
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) die("bind");
  if (::listen(fd.get(), 4096) != 0) die("listen");
  return fd;
}

// How far the search for "\r\n\r\n" has come on a connection: the only state a request needs here.
struct Connection {
  unsigned matched = 0;
};

// Counts request heads that end in `bytes`, carrying a partial match over to the next read.
unsigned count_requests(Connection& connection, std::string_view bytes) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  unsigned found = 0;
  for (const char c : bytes) {
    connection.matched = c == kEnd[connection.matched] ? connection.matched + 1 : (c == '\r' ? 1 : 0);
    if (connection.matched == kEnd.size()) {
      ++found;
      connection.matched = 0;
    }
  }
  return found;
}

class Responder {
 public:
  explicit Responder(osb::UniqueFd listener) : listener_(std::move(listener)), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (!epoll_) die("epoll_create1");
    watch(listener_.get());
  }

  [[noreturn]] void run() {
    std::array<epoll_event, 512> events;
    for (;;) {
      const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), -1);
      for (int i = 0; i < count; ++i) {
        const int fd = events[static_cast<std::size_t>(i)].data.fd;
        fd == listener_.get() ? accept_all() : answer(fd);
      }
    }
  }

 private:
  void watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) die("epoll_ctl");
  }

  void accept_all() {
    for (int fd; (fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
      const int on = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      if (connections_.size() <= static_cast<std::size_t>(fd)) connections_.resize(static_cast<std::size_t>(fd) + 1);
      connections_[static_cast<std::size_t>(fd)] = {};
      watch(fd);
    }
  }

  void answer(int fd) {
    std::array<char, 16 * 1024> in;
    const ssize_t got = ::recv(fd, in.data(), in.size(), 0);
    if (got < 0 && errno == EAGAIN) return;
    bool keep = got > 0;
    if (keep) {
      out_.clear();
      for (unsigned n =
               count_requests(connections_[static_cast<std::size_t>(fd)], {in.data(), static_cast<std::size_t>(got)});
           n > 0; --n) {
        out_ += kResponse;
      }
      // A load generator always reads: a socket buffer that cannot take a few hundred bytes means a broken peer.
      keep = ::send(fd, out_.data(), out_.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(out_.size());
    }
    if (!keep) ::close(fd);
  }

  osb::UniqueFd listener_;
  osb::UniqueFd epoll_;
  std::vector<Connection> connections_;  // by descriptor
  std::string out_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s PORT\n", argv[0]);
    return EXIT_FAILURE;
  }
  Responder responder(listen_on_loopback(std::atoi(argv[1])));
  std::puts("listening");
  std::fflush(stdout);
  responder.run();
}
