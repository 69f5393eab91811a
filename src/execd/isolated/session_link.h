#pragma once

#include <string>

#include "async/descriptor.h"
#include "async/net.h"
#include "base/error.h"
#include "execd/isolated/isolation_options.h"
#include "execd/isolated/session_spec.h"
#include "execd/isolated/session_walls.h"

namespace osb::execd {

// execd's end of a session that exists: the control socket of its first process. Closing it ends the session.
class SessionLink {
 public:
  // Makes the session. Code::InvalidRequest: its description cannot be carried out as it stands. Code::Unavailable:
  // sessions cannot be made here.
  static net::awaitable<Result<SessionLink>> make(net::any_io_executor executor, IsolationOptions options,
                                                  SessionSpec spec);

  const SessionWalls& walls() const { return walls_; }
  int control() const { return socket_.fd(); }
  // A message with one descriptor. Fails when the session is dead.
  Result<void> send(char kind, int fd);
  // Returns when the first process has ended.
  net::awaitable<void> ended();
  // Asks the first process to end. ended() returns then.
  void finish();

 private:
  SessionLink(Descriptor socket, SessionWalls walls) : socket_(std::move(socket)), walls_(std::move(walls)) {}

  Descriptor socket_;
  SessionWalls walls_;
};

}  // namespace osb::execd
