#include "http/server.h"

#include <cerrno>
#include <list>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "http/listener.h"
#include "http/session.h"
#include "http/socket_address.h"
#include "sys/syscall.h"

namespace osb::http {

struct Server::State : std::enable_shared_from_this<Server::State> {
  State(net::any_io_executor ex, Handler h, ServerOptions o)
      : executor(std::move(ex)), handler(std::move(h)), options(std::move(o)), changed(executor) {}

  net::any_io_executor executor;
  Handler handler;
  ServerOptions options;
  std::list<Listener> listeners;
  std::list<SessionHandle> sessions;
  std::size_t securing = 0;
  std::size_t accepting = 0;
  bool stopping = false;
  LogRate tls_lines;          // of all sessions
  net::steady_timer changed;  // cancelled whenever a session or listener ends

  static net::awaitable<void> accept_loop(std::shared_ptr<State> self, Listener& listener);
  static net::awaitable<void> serve(std::shared_ptr<State> self, std::unique_ptr<Transport> transport,
                                    std::shared_ptr<net::cancellation_signal> cancel);
  void cancel_sessions();
  void refuse(UniqueFd socket);
  void start(UniqueFd listener);
};

void Server::State::start(UniqueFd socket) {
  listeners.emplace_back(executor, std::move(socket));
  ++accepting;
  net::co_spawn(executor, accept_loop(shared_from_this(), listeners.back()),
                [self = shared_from_this()](std::exception_ptr) {
                  --self->accepting;
                  self->changed.cancel();
                });
}

net::awaitable<void> Server::State::accept_loop(std::shared_ptr<State> self, Listener& listener) {
  net::steady_timer pause(self->executor);
  while (!self->stopping) {
    auto socket = co_await listener.accept();
    if (!socket) {
      if (socket.error().code != Code::Unavailable) co_return;
      // Out of descriptors or memory: the backlog waits until something was freed.
      pause.expires_after(std::chrono::milliseconds(50));
      boost::system::error_code ignored;
      co_await pause.async_wait(net::redirect_error(net::use_awaitable, ignored));
    } else if (self->sessions.size() + self->securing >= self->options.limits.connections) {
      self->refuse(std::move(*socket));
    } else {
      ++self->securing;
      auto cancel = std::make_shared<net::cancellation_signal>();
      net::co_spawn(
          self->executor, serve(self, make_plain_transport(self->executor, std::move(*socket)), cancel),
          net::bind_cancellation_slot(cancel->slot(), [self, cancel](std::exception_ptr) { self->changed.cancel(); }));
    }
  }
}

void Server::State::refuse(UniqueFd socket) {
  static constexpr std::string_view kBody =
      R"({"code":"GENERAL::TOO_MANY_CONNECTIONS","message":"too many open connections, try again later"})";
  const std::string answer =
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: "
      "close\r\nContent-Length: " +
      std::to_string(kBody.size()) + "\r\n\r\n" + std::string(kBody);
  [[maybe_unused]] const ssize_t n = ::send(socket.get(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(socket.get(), SHUT_WR);
}

net::awaitable<void> Server::State::serve(std::shared_ptr<State> self, std::unique_ptr<Transport> transport,
                                          std::shared_ptr<net::cancellation_signal> cancel) {
  if (self->options.secure) {
    auto secured = co_await self->options.secure(std::move(transport));
    --self->securing;
    if (!secured || self->stopping) co_return;
    transport = std::move(*secured);
  } else {
    --self->securing;
  }
  auto connection = std::make_shared<Connection>();
  connection->transport = std::move(transport);
  const auto place = self->sessions.insert(
      self->sessions.end(),
      SessionHandle{connection, std::move(cancel), true, self->stopping, false, &self->tls_lines});
  try {
    co_await run_session(*place, self->handler, self->options);
  } catch (const std::exception&) {
    connection->transport->close();  // an exhausted machine (bad_alloc) outside a handler: the others go on
  }
  connection->transport->shutdown_write();  // an orderly end: TLS tells it apart from a cut connection
  connection->transport->close();
  self->sessions.erase(place);
}

void Server::State::cancel_sessions() {
  // One may end at once and leave the list while it is being told.
  for (auto next = sessions.begin(); next != sessions.end();) {
    SessionHandle& session = *next++;
    session.cancelled = true;
    session.connection->transport->close();
    const auto cancel = session.cancel;
    cancel->emit(net::cancellation_type::terminal);
  }
}

Server::Server(net::any_io_executor executor, Handler handler, ServerOptions options)
    : state_(std::make_shared<State>(std::move(executor), std::move(handler), std::move(options))) {}

Server::~Server() {
  state_->stopping = true;
  for (auto& listener : state_->listeners) listener.close();
  for (auto& session : state_->sessions) session.connection->transport->close();
}

Result<Address> Server::listen(const Address& address) {
  auto target = to_sockaddr(address);
  if (!target) return Failure(target.error());
  UniqueFd socket(::socket(target->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return sys::from_errno("socket", errno);
  if (address.unix_path.empty()) {
    const int on = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  } else {
    struct stat info;
    if (::lstat(address.unix_path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode)) ::unlink(address.unix_path.c_str());
  }
  if (::bind(socket.get(), target->get(), target->length) < 0) {
    return sys::from_errno("listen on " + address.to_string(), errno);
  }
  if (::listen(socket.get(), state_->options.backlog) < 0) {
    return sys::from_errno("listen on " + address.to_string(), errno);
  }
  SocketAddress bound;
  bound.length = sizeof bound.storage;
  ::getsockname(socket.get(), bound.get(), &bound.length);
  state_->start(std::move(socket));
  return address.unix_path.empty() ? from_sockaddr(bound) : address;
}

Result<void> Server::listen(UniqueFd listener) {
  int accepting = 0;
  socklen_t size = sizeof accepting;
  if (::getsockopt(listener.get(), SOL_SOCKET, SO_ACCEPTCONN, &accepting, &size) < 0 || accepting == 0) {
    return fail(Code::InvalidRequest, "descriptor " + std::to_string(listener.get()) + " is not a listening socket");
  }
  state_->start(std::move(listener));
  return {};
}

net::awaitable<void> Server::stop(std::chrono::milliseconds grace) {
  auto state = state_;
  state->stopping = true;
  for (auto& listener : state->listeners) listener.close();
  for (auto& session : state->sessions) {
    session.stopping = true;
    if (session.idle) session.connection->transport->close();
  }
  const auto until = std::chrono::steady_clock::now() + grace;
  bool forced = false;
  while (!state->sessions.empty() || state->accepting > 0 || state->securing > 0) {
    if (!forced && std::chrono::steady_clock::now() >= until) {
      forced = true;
      state->cancel_sessions();
    }
    state->changed.expires_at(forced ? net::steady_timer::time_point::max() : until);
    boost::system::error_code ignored;
    co_await state->changed.async_wait(net::redirect_error(net::use_awaitable, ignored));
  }
  state->listeners.clear();
}

void Server::end_idle() {
  for (auto& session : state_->sessions) {
    Transport& transport = *session.connection->transport;
    int arrived = 0;
    if (!session.idle) {
      session.stopping = true;
    } else if (::ioctl(transport.native_fd(), FIONREAD, &arrived) == 0 && arrived == 0) {
      transport.close();
    }
  }
}

std::size_t Server::open_connections() const { return state_->sessions.size(); }

void Server::set_limits(const ServerLimits& limits) { state_->options.limits = limits; }

}  // namespace osb::http
