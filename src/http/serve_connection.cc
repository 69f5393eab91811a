#include "http/serve_connection.h"

#include <boost/asio/this_coro.hpp>

#include "http/session.h"

namespace osb::http {

net::awaitable<void> serve_connection(UniqueFd socket, const Handler& handler) {
  const ServerOptions options;
  co_await serve_transport(make_plain_transport(co_await net::this_coro::executor, std::move(socket)), handler,
                           options);
}

net::awaitable<void> serve_transport(std::unique_ptr<Transport> transport, const Handler& handler,
                                     const ServerOptions& options) {
  ConnectionPlaces places({64, 64, 0});
  ConnectionPlaces::Place place;
  LogRate tls_lines;
  SessionHandle session;
  session.connection = std::make_shared<Connection>();
  session.connection->transport = std::move(transport);
  session.tls_lines = &tls_lines;
  session.places = &places;
  session.place = &place;
  static_cast<void>(places.enter(place));
  places.begin(place, [] { return false; });
  co_await run_session(session, handler, options);
  session.connection->transport->shutdown_write();
  session.connection->transport->close();
  places.leave(place);
}

}  // namespace osb::http
