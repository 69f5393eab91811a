#pragma once

#include <arpa/inet.h>
#include <cstdint>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "response_reader.h"

namespace osb::bench {

// A blocking HTTP/1.1 connection of one thread, without pipelining. Failures are thrown.
class Connection {
 public:
  explicit Connection(const std::string& socket_path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (socket_path.size() >= sizeof address.sun_path) throw std::runtime_error(socket_path + ": too long");
    std::memcpy(address.sun_path, socket_path.c_str(), socket_path.size() + 1);
    connect(reinterpret_cast<sockaddr*>(&address), sizeof address, socket_path);
  }
  Connection(const std::string& host, std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    ::inet_pton(AF_INET, host.c_str(), &address.sin_addr);
    connect(reinterpret_cast<sockaddr*>(&address), sizeof address, host + ":" + std::to_string(port));
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~Connection() { ::close(fd_); }
  Connection(const Connection&) = delete;

  void send(const std::string& method, const std::string& target, const std::string& headers, std::string_view body) {
    const std::string head = method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
                             "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
    if (body.size() < 4096) return send_all(head + std::string(body));
    send_all(head);
    send_all(body);
  }

  // Hands the body to `on_piece(std::string_view)`, which returns true when it has seen enough: the connection is of no
  // use any more then. Returns the status. A body without a length ends with the connection.
  template <typename OnPiece>
  int receive(OnPiece on_piece) {
    ResponseReader reader;
    for (;;) {
      const ssize_t size = ::recv(fd_, buffer_, sizeof buffer_, 0);
      if (size == 0 && reader.ends_with_connection()) return reader.status();
      if (size <= 0) throw std::runtime_error("the connection ended before the answer");
      bool enough = false;
      const bool done = reader.feed({buffer_, static_cast<std::size_t>(size)},
                                    [&](std::string_view piece) { enough = on_piece(piece) || enough; });
      if (done || enough) return reader.status();
    }
  }

  // The answer's body. `until`: as soon as the body contains it.
  std::string exchange(const std::string& method, const std::string& target, const std::string& headers,
                       const std::string& body, int want, std::string_view until = {}) {
    send(method, target, headers, body);
    std::string text;
    const int status = receive([&](std::string_view piece) {
      text += piece;
      return !until.empty() && text.find(until) != std::string::npos;
    });
    if (status != want) throw std::runtime_error(target + ": " + std::to_string(status) + " " + text);
    if (!until.empty() && text.find(until) == std::string::npos) {
      throw std::runtime_error(target + ": no " + std::string(until) + " in " + text);
    }
    return text;
  }

 private:
  void connect(const sockaddr* address, socklen_t size, const std::string& where) {
    if (fd_ >= 0 && ::connect(fd_, address, size) == 0) return;
    const std::string what = "connect " + where + ": " + std::strerror(errno);
    ::close(fd_);
    throw std::runtime_error(what);
  }
  void send_all(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t size = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (size <= 0) throw std::runtime_error(std::string("send: ") + std::strerror(errno));
      bytes.remove_prefix(static_cast<std::size_t>(size));
    }
  }

  int fd_;
  char buffer_[65536];
};

// The first text field of that name, as our own programs write JSON: without blanks; others put one after the colon.
inline std::string field(const std::string& json, const std::string& name) {
  for (const char* colon : {"\":\"", "\": \""}) {
    const std::string key = "\"" + name + colon;
    if (const auto at = json.find(key); at != std::string::npos) {
      return json.substr(at + key.size(), json.find('"', at + key.size()) - at - key.size());
    }
  }
  throw std::runtime_error("no " + name + " in " + json);
}

}  // namespace osb::bench
