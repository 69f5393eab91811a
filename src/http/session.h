#pragma once

#include <list>
#include <memory>

#include <boost/asio/cancellation_signal.hpp>

#include "base/log_rate.h"
#include "http/connection.h"
#include "http/connection_places.h"
#include "http/server.h"

namespace osb::http {

// State of a session that the server and the session share.
struct SessionHandle {
  std::shared_ptr<Connection> connection;
  std::shared_ptr<net::cancellation_signal> cancel;  // ends the session wherever it waits
  bool idle = true;                                  // between requests: may be closed at any time
  bool stopping = false;                             // end after the response that is being sent
  bool cancelled = false;
  bool reads_head = false;                   // it waits for bytes of a head
  LogRate* tls_lines = nullptr;              // of lines about TLS on a plain port; outlives the session
  ConnectionPlaces* places = nullptr;        // the server's
  ConnectionPlaces::Place* place = nullptr;  // of this connection; outlives the session
};

// The answer to a client for which there is no place, and the same as bytes.
Response no_place();
std::string no_place_bytes();

// Serves one connection until either side ends it. All arguments outlive the session: the server waits for it.
net::awaitable<void> run_session(SessionHandle& session, const Handler& handler, const ServerOptions& options);

}  // namespace osb::http
