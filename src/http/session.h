#pragma once

#include <list>
#include <memory>

#include <boost/asio/cancellation_signal.hpp>

#include "base/log_rate.h"
#include "http/connection.h"
#include "http/server.h"

namespace osb::http {

// State of a session that the server and the session share.
struct SessionHandle {
  std::shared_ptr<Connection> connection;
  std::shared_ptr<net::cancellation_signal> cancel;  // ends the session wherever it waits
  bool idle = true;                                  // between requests: may be closed at any time
  bool stopping = false;                             // end after the response that is being sent
  bool cancelled = false;
  LogRate* tls_lines = nullptr;  // of lines about TLS on a plain port; outlives the session
};

// Serves one connection until either side ends it. All arguments outlive the session: the server waits for it.
net::awaitable<void> run_session(SessionHandle& session, const Handler& handler, const ServerOptions& options);

}  // namespace osb::http
