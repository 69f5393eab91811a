#include "http/server.h"

#include <cerrno>
#include <list>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/deadline.h"
#include "base/log.h"
#include "http/connection_places.h"
#include "http/listener.h"
#include "http/session.h"
#include "http/socket_address.h"
#include "sys/syscall.h"

namespace osb::http {

struct Server::State : std::enable_shared_from_this<Server::State> {
  State(net::any_io_executor ex, Handler h, ServerOptions o)
      : executor(std::move(ex)),
        handler(std::move(h)),
        options(std::move(o)),
        places(place_limits()),
        changed(executor) {}

  net::any_io_executor executor;
  Handler handler;
  ServerOptions options;
  ConnectionPlaces places;
  std::list<Listener> listeners;
  std::list<SessionHandle> sessions;
  std::size_t securing = 0;
  std::size_t accepting = 0;
  bool stopping = false;
  LogRate tls_lines;          // of all sessions
  LogRate full_lines;         // about connections that had to go
  net::steady_timer changed;  // cancelled whenever a session or listener ends

  static net::awaitable<void> accept_loop(std::shared_ptr<State> self, Listener& listener);
  // A place that is given back.
  struct HeldPlace {
    explicit HeldPlace(ConnectionPlaces& all) : places(all) {}
    ~HeldPlace() { places.leave(place); }
    HeldPlace(const HeldPlace&) = delete;
    HeldPlace& operator=(const HeldPlace&) = delete;
    ConnectionPlaces& places;
    ConnectionPlaces::Place place;
  };
  static net::awaitable<void> serve(std::shared_ptr<State> self, std::unique_ptr<HeldPlace> place,
                                    std::unique_ptr<Transport> transport,
                                    std::shared_ptr<net::cancellation_signal> cancel);
  ConnectionPlaces::Limits place_limits() const;
  void note_full();
  // Ends a session that only waits for its client. False: the client has just sent something.
  static bool end_waiting(SessionHandle& session);
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
      if (self->places.make_room()) continue;
      pause.expires_after(std::chrono::milliseconds(50));
      boost::system::error_code ignored;
      co_await pause.async_wait(net::redirect_error(net::use_awaitable, ignored));
      continue;
    }
    auto place = std::make_unique<HeldPlace>(self->places);
    const std::size_t ended = self->places.ended();
    bool entered = self->places.enter(place->place);
    if (!entered && self->places.starting() > 0) {
      // The sessions of this batch run first: most clients have sent their request by now and show who they are.
      co_await net::post(self->executor, net::use_awaitable);
      entered = self->places.enter(place->place);
    }
    if (!entered || self->places.ended() > ended || place->place.in_reserve()) self->note_full();
    if (!entered) {
      self->refuse(std::move(*socket));
    } else {
      ++self->securing;
      auto cancel = std::make_shared<net::cancellation_signal>();
      net::co_spawn(
          self->executor,
          serve(self, std::move(place), make_plain_transport(self->executor, std::move(*socket)), cancel),
          net::bind_cancellation_slot(cancel->slot(), [self, cancel](std::exception_ptr) { self->changed.cancel(); }));
    }
  }
}

ConnectionPlaces::Limits Server::State::place_limits() const {
  // A health check takes no time, so that few places serve many of them.
  constexpr std::size_t kReserve = 16;
  return {options.limits.connections, options.limits.half_sent_per_client, options.is_vital ? kReserve : 0};
}

void Server::State::note_full() {
  if (const auto left_out = full_lines.next()) {
    log_warn("too many open connections: new ones replace those of clients that sent half a request or nothing",
             {{"known", places.known()}, {"strangers", places.strangers()}, {"left_out", *left_out}});
  }
}

bool Server::State::end_waiting(SessionHandle& session) {
  Transport& transport = *session.connection->transport;
  if (session.reads_head) {
    int arrived = 0;
    if (::ioctl(transport.native_fd(), FIONREAD, &arrived) == 0 && arrived > 0) return false;
    if (!session.connection->in.empty()) {  // half a head: its client waits for an answer
      std::string answer = no_place_bytes();
      iovec piece{answer.data(), answer.size()};
      (void)transport.try_write({&piece, 1});
    }
  }
  transport.close();
  return true;
}

void Server::State::refuse(UniqueFd socket) {
  const std::string answer = no_place_bytes();
  [[maybe_unused]] const ssize_t n = ::send(socket.get(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(socket.get(), SHUT_WR);
}

net::awaitable<void> Server::State::serve(std::shared_ptr<State> self, std::unique_ptr<HeldPlace> held,
                                          std::unique_ptr<Transport> transport,
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
  const auto place = self->sessions.insert(self->sessions.end(), SessionHandle{.connection = connection,
                                                                               .cancel = std::move(cancel),
                                                                               .stopping = self->stopping,
                                                                               .tls_lines = &self->tls_lines,
                                                                               .places = &self->places,
                                                                               .place = &held->place});
  self->places.begin(held->place, [&session = *place] { return end_waiting(session); });
  try {
    co_await run_session(*place, self->handler, self->options);
  } catch (const std::exception&) {
    connection->transport->close();  // an exhausted machine (bad_alloc) outside a handler: the others go on
  }
  connection->transport->shutdown_write();  // an orderly end: TLS tells it apart from a cut connection
  connection->transport->close();
  self->places.leave(held->place);  // before the session that it would end
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
  const Deadline deadline(grace);
  bool forced = false;
  while (!state->sessions.empty() || state->accepting > 0 || state->securing > 0) {
    if (!forced && deadline.passed()) {
      forced = true;
      state->cancel_sessions();
    }
    if (forced) {
      state->changed.expires_at(net::steady_timer::time_point::max());
    } else {
      state->changed.expires_after(deadline.left());
    }
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

std::size_t Server::ended_connections() const { return state_->places.ended(); }

void Server::set_limits(const ServerLimits& limits) {
  state_->options.limits = limits;
  state_->places.set_limits(state_->place_limits());
}

}  // namespace osb::http
