#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "async/net.h"
#include "base/error.h"
#include "base/unique_fd.h"
#include "http/message.h"
#include "http/transport.h"

namespace osb::http {

struct ServerLimits {
  std::size_t header_bytes = 64 * 1024;
  std::size_t connections = 10'000;                // more are answered 503 and closed
  std::size_t half_sent_per_client = 64;           // half-sent heads of one address; a further one ends the oldest
  std::chrono::milliseconds header_time{30'000};   // from a request's first byte to the end of its head
  std::chrono::milliseconds pressed_time{3'000};   // the same for strangers while they have half of their places
  std::chrono::milliseconds idle{600'000};         // between requests; clients keep pooled connections up to 5 minutes
  std::chrono::milliseconds body_stall{120'000};   // a request body without a byte for so long
  std::chrono::milliseconds write_stall{600'000};  // a response of which the peer takes nothing for so long
};

// The outcome of one request, for access logs and metrics; reported when the response is over.
struct RequestSummary {
  const Request& request;
  int status;
  std::uint64_t body_bytes;
  std::chrono::nanoseconds duration;
  bool truncated;  // the response could not be sent whole
};

struct ServerOptions {
  ServerLimits limits;
  int backlog = 4096;                                      // connections that the kernel holds until they are accepted
  std::function<void(const RequestSummary&)> on_complete;  // may be empty
  // Whether the request shows that its client is no stranger (connection_places.h): it has the key. Asked until it is
  // true, once per request. Empty: a complete request is enough. Clients of Unix sockets are no strangers.
  std::function<bool(const Request&)> is_known = {};
  // Requests that are answered also when there is no place: health checks. Empty: none, and further connections are
  // refused before their request is read.
  std::function<bool(const Request&)> is_vital = {};
  // A handler threw: a bug. The client gets a 500 (or a broken stream); this is for the log. May be empty.
  std::function<void(const Request&, const std::exception&)> on_exception;
  // Turns an accepted socket into another transport (TLS). Empty: plain.
  std::function<net::awaitable<Result<std::unique_ptr<Transport>>>(std::unique_ptr<Transport>)> secure;
};

// Accepts connections and runs a session for each on the given executor (one thread). Sessions, handlers and the
// router are used until stop() has returned.
class Server {
 public:
  Server(net::any_io_executor executor, Handler handler, ServerOptions options = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Binds and starts accepting; returns the address with the real port. A stale Unix socket file is replaced.
  Result<Address> listen(const Address& address);
  // Takes over a listening socket that was made elsewhere.
  Result<void> listen(UniqueFd listener);

  // Stops accepting, lets running responses end, closes idle connections at once and the rest after `grace`: handlers
  // that still wait for something else are cancelled then (terminal), which is no bug to report.
  net::awaitable<void> stop(std::chrono::milliseconds grace);

  // Closes the connections that are between two requests, and the others after the response that is being sent: clients
  // open new ones. Requests that have arrived are answered.
  void end_idle();

  std::size_t open_connections() const;
  // Connections that were closed to make room for others, so far.
  std::size_t ended_connections() const;
  // For new connections and, on open ones, from their next wait on.
  void set_limits(const ServerLimits& limits);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace osb::http
