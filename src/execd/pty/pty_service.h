#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "api/execd_requests.h"
#include "async/net.h"
#include "async/task_group.h"
#include "base/error.h"
#include "execd/pty/pty_session.h"
#include "execd/run/environment.h"
#include "execd/run/run_host.h"
#include "sys/passwd.h"

namespace osb::execd {

// Interactive shells by id. One thread. Everything given to the constructor outlives it, and it outlives the loop's
// last turn.
class PtyService {
 public:
  PtyService(RunHost& host, CommandEnvironment& environment);
  ~PtyService();

  // The new session. Its directory is created where it is missing; the shell starts with the first connection.
  Result<std::shared_ptr<PtySession>> create(const api::CreatePty& request);
  // Null: unknown.
  std::shared_ptr<PtySession> find(std::string_view id) const;
  // Kills the shell with all that came out of it and forgets the session. False: unknown.
  net::awaitable<bool> remove(std::string id);

  // Takes no more sessions, removes all and returns when their processes have ended and clients were told.
  net::awaitable<void> shutdown();

  std::size_t size() const { return sessions_.size(); }
  bool any_running() const;  // a shell, with or without a client

 private:
  RunHost& host_;
  CommandEnvironment& environment_;
  sys::UserDatabase users_;
  TaskGroup tasks_;  // of the sessions
  std::map<std::string, std::shared_ptr<PtySession>, std::less<>> sessions_;
  bool closing_ = false;
};

}  // namespace osb::execd
