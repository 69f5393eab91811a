#include "client/redis_connection.h"

#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <system_error>
#include <unistd.h>

#include "base/parse_number.h"
#include "client/errors.h"
#include "http/url.h"

namespace opensandbox {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kLongestText = 64 * 1024 * 1024;
constexpr std::int64_t kLongestList = 10'000'000;
constexpr int kDeepest = 8;

Failure unavailable(const std::string& why) { return pool_error("POOL_STATE_STORE_UNAVAILABLE", "redis: " + why); }

Failure unavailable(const std::string& what, int error) {
  return unavailable(what + ": " + std::generic_category().message(error));
}

}  // namespace

Result<RedisAddress> RedisAddress::parse(const std::string& url) {
  RedisAddress out;
  std::string_view rest = url;
  if (rest.starts_with("unix:")) {
    rest.remove_prefix(5);
    if (rest.starts_with("///")) rest.remove_prefix(2);
    out.socket_path = rest;
    if (!rest.starts_with('/') || rest.size() >= sizeof(sockaddr_un::sun_path)) {
      return invalid_argument("redis: expected the absolute path of a socket");
    }
    return out;
  }
  // The address is not repeated in errors: it may hold a password.
  if (!rest.starts_with("redis://")) return invalid_argument("redis: expected redis://host:port or unix:/path");
  rest.remove_prefix(8);
  if (const auto at = rest.rfind('@'); at != std::string_view::npos) {
    const std::string_view login = rest.substr(0, at);
    const auto colon = login.find(':');
    if (colon == std::string_view::npos) return invalid_argument("redis: expected user:password or :password");
    const auto user = osb::http::percent_decode(login.substr(0, colon));
    const auto password = osb::http::percent_decode(login.substr(colon + 1));
    if (!user || !password) return invalid_argument("redis: the login is not percent-encoded as it should be");
    out.user = *user;
    out.password = *password;
    rest.remove_prefix(at + 1);
  }
  if (const auto slash = rest.find('/'); slash != std::string_view::npos) {
    out.database = rest.substr(slash + 1);
    if (!out.database.empty() && !osb::parse_number<std::int64_t>(out.database))
      return invalid_argument("redis: the database is a number");
    rest = rest.substr(0, slash);
  }
  const auto parsed = osb::http::Url::parse("http://" + std::string(rest));
  if (!parsed || parsed->host.empty()) return invalid_argument("redis: expected host or host:port");
  out.host = parsed->host;
  const auto bracket = rest.rfind(']');
  out.port = rest.find(':', bracket == std::string_view::npos ? 0 : bracket) == std::string_view::npos
                 ? "6379"
                 : std::to_string(parsed->port);
  return out;
}

Result<RedisValue> RedisConnection::call(const std::vector<std::string>& command) {
  if (socket_.get() < 0) {
    if (auto connected = connect(); !connected) {
      socket_.reset();
      return Failure(std::move(connected.error()));
    }
  }
  return exchange(command);
}

Result<void> RedisConnection::connect() {
  received_.clear();
  if (auto opened = open_socket(); !opened) return opened;
  std::vector<std::vector<std::string>> first;
  if (!address_.password.empty()) {
    first.push_back(address_.user.empty() ? std::vector<std::string>{"AUTH", address_.password}
                                          : std::vector<std::string>{"AUTH", address_.user, address_.password});
  }
  if (!address_.database.empty()) first.push_back({"SELECT", address_.database});
  for (const auto& command : first) {
    if (auto done = exchange(command); !done) return Failure(std::move(done.error()));
  }
  return {};
}

Result<void> RedisConnection::open_socket() {
  const auto until = Clock::now() + timeout_;
  const auto try_one = [&](int family, const sockaddr* address, socklen_t size) -> Result<void> {
    socket_.reset(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket_.get() < 0) return unavailable("socket", errno);
    const int on = 1;
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // of no effect on Unix sockets
    if (::connect(socket_.get(), address, size) == 0) return {};
    if (errno != EINPROGRESS) return unavailable("connect", errno);
    if (auto ready = wait(POLLOUT, until); !ready) return ready;
    int error = 0;
    socklen_t length = sizeof(error);
    ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    return error == 0 ? Result<void>() : unavailable("connect", error);
  };
  if (!address_.socket_path.empty()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, address_.socket_path.c_str(), address_.socket_path.size());
    return try_one(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(address_.host.c_str(), address_.port.c_str(), &hints, &found); error != 0) {
    return unavailable(address_.host + ": " + ::gai_strerror(error));
  }
  Result<void> out = unavailable(address_.host + ": has no address");
  for (const addrinfo* one = found; one != nullptr && !out; one = one->ai_next) {
    out = try_one(one->ai_family, one->ai_addr, one->ai_addrlen);
  }
  ::freeaddrinfo(found);
  return out;
}

Result<RedisValue> RedisConnection::exchange(const std::vector<std::string>& command) {
  std::string text = '*' + std::to_string(command.size()) + "\r\n";
  for (const std::string& word : command) text += '$' + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  const auto until = Clock::now() + timeout_;
  for (std::string_view left = text; !left.empty();) {
    const ssize_t n = ::send(socket_.get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      left.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      if (auto ready = wait(POLLOUT, until); !ready) {
        socket_.reset();
        return Failure(std::move(ready.error()));
      }
    } else if (errno != EINTR) {
      const int error = errno;
      socket_.reset();
      return unavailable("send", error);
    }
  }
  auto out = value(until, 0);
  // An error that Redis tells leaves the connection in order; the others do not.
  if (!out && !out.error().message.starts_with("redis: answered")) socket_.reset();
  return out;
}

Result<void> RedisConnection::wait(short events, Clock::time_point until) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return unavailable("no answer within " + std::to_string(timeout_.count()) + " ms");
    pollfd entry{.fd = socket_.get(), .events = events, .revents = 0};
    const int n = ::poll(&entry, 1, static_cast<int>(left));
    if (n > 0) return {};
    if (n < 0 && errno != EINTR) return unavailable("poll", errno);
  }
}

Result<void> RedisConnection::fill(Clock::time_point until) {
  char buffer[16 * 1024];
  for (;;) {
    const ssize_t n = ::recv(socket_.get(), buffer, sizeof(buffer), 0);
    if (n > 0) {
      received_.append(buffer, static_cast<std::size_t>(n));
      return {};
    }
    if (n == 0) return unavailable("the connection was closed");
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return unavailable("receive", errno);
    if (auto ready = wait(POLLIN, until); !ready) return ready;
  }
}

Result<std::string> RedisConnection::line(Clock::time_point until) {
  for (;;) {
    if (const auto end = received_.find("\r\n"); end != std::string::npos) {
      std::string out = received_.substr(0, end);
      received_.erase(0, end + 2);
      return out;
    }
    if (received_.size() > 64 * 1024) return unavailable("the answer is no answer of Redis");
    if (auto filled = fill(until); !filled) return Failure(std::move(filled.error()));
  }
}

Result<std::string> RedisConnection::bytes(std::size_t count, Clock::time_point until) {
  while (received_.size() < count + 2) {
    if (auto filled = fill(until); !filled) return Failure(std::move(filled.error()));
  }
  std::string out = received_.substr(0, count);
  received_.erase(0, count + 2);
  return out;
}

Result<RedisValue> RedisConnection::value(Clock::time_point until, int depth) {
  const auto head = line(until);
  if (!head) return Failure(head.error());
  if (head->empty() || depth > kDeepest) return unavailable("the answer is no answer of Redis");
  const std::string_view rest = std::string_view(*head).substr(1);
  RedisValue out;
  if (head->front() == '+') {
    out.type = RedisValue::Type::Text;
    out.text = rest;
    return out;
  }
  if (head->front() == '-') return unavailable("answered " + std::string(rest));
  const auto number = osb::parse_number<std::int64_t>(rest);
  if (!number) return unavailable("the answer is no answer of Redis");
  switch (head->front()) {
    case ':':
      out.type = RedisValue::Type::Number;
      out.number = *number;
      return out;
    case '$': {
      if (*number < 0) return out;
      if (*number > kLongestText) return unavailable("the answer is too long");
      auto text = bytes(static_cast<std::size_t>(*number), until);
      if (!text) return Failure(std::move(text.error()));
      out.type = RedisValue::Type::Text;
      out.text = std::move(*text);
      return out;
    }
    case '*':
      if (*number < 0) return out;
      if (*number > kLongestList) return unavailable("the answer is too long");
      out.type = RedisValue::Type::List;
      for (std::int64_t i = 0; i < *number; ++i) {
        auto item = value(until, depth + 1);
        if (!item) return item;
        out.list.push_back(std::move(*item));
      }
      return out;
    default:
      return unavailable("the answer is no answer of Redis");
  }
}

}  // namespace opensandbox
