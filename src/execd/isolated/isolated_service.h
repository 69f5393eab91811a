#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/execd_isolated.h"
#include "async/net.h"
#include "async/task_group.h"
#include "async/timer.h"
#include "base/error.h"
#include "execd/isolated/isolation_options.h"
#include "execd/isolated/session_link.h"
#include "execd/run/environment.h"
#include "execd/run/outcome.h"
#include "execd/run/run.h"
#include "execd/run/run_host.h"
#include "execd/session/session_service.h"

namespace osb::execd {

// A run of an isolated session that nobody waits for.
struct IsolatedRun {
  std::string id;
  std::shared_ptr<Run> run;  // null once it has ended
  std::shared_ptr<OutputLog> output;
  std::chrono::system_clock::time_point started_at;
  std::optional<Outcome> outcome;
  std::chrono::system_clock::time_point finished_at;
};

// One isolated session. Active until its first process ends: dead where that ended by itself, destroyed where the idle
// time was over. Both stay known until they are deleted.
struct IsolatedSession {
  enum class Status { Active, Dead, Destroyed };

  explicit IsolatedSession(const net::any_io_executor& executor) : gone(executor), changed(executor) {}

  std::string id;
  api::CreateIsolatedSession request;
  SessionSpec spec;
  Status status = Status::Active;
  std::chrono::system_clock::time_point created_at, last_run_at;
  std::shared_ptr<SessionLink> link;
  std::shared_ptr<Session> shell;
  std::map<std::string, std::shared_ptr<IsolatedRun>, std::less<>> runs;

  std::size_t active = 0;  // runs
  bool committing = false;
  std::chrono::steady_clock::time_point idle_since;
  Event gone;        // its first process has ended
  Notifier changed;  // a run has begun or ended
};

// Isolated sessions: how they are made is in docs/design/isolated-sessions.md. One thread; everything given to the
// constructor outlives it, and it outlives the loop's last turn.
class IsolatedService {
 public:
  // The state of a session.
  struct Probe {
    SessionWalls walls;
    bool user_namespaces = false;  // uid_mode userns can be had
  };

  IsolatedService(RunHost& host, CommandEnvironment& environment, IsolationOptions options, std::string temp_directory);

  // Why there can be no sessions; empty: they can be tried.
  const std::string& unavailable() const { return unavailable_; }
  const IsolationOptions& options() const { return options_; }
  const Clock& clock() const { return host_.clock(); }
  // By making a session; made once. An error: no session can be made.
  net::awaitable<Result<Probe>> probe();

  // Code::Unsupported: this user mode is not to be had. Code::Unavailable: no session can be made now.
  net::awaitable<Result<std::shared_ptr<IsolatedSession>>> create(api::CreateIsolatedSession request);
  std::shared_ptr<IsolatedSession> find(std::string_view id) const;  // null: unknown
  const auto& sessions() const { return sessions_; }
  // Ends it with all its processes. False: unknown.
  net::awaitable<bool> remove(std::string id);

  // The session is active. Streams the events.
  net::awaitable<Result<void>> run(std::shared_ptr<IsolatedSession> session, api::RunIsolated request,
                                   http::BodyWriter& writer);
  Result<std::shared_ptr<IsolatedRun>> run_in_background(const std::shared_ptr<IsolatedSession>& session,
                                                         const api::RunIsolated& request);

  // The changes of its overlays go to the sandbox, and the session begins anew without changes; its shell's variables
  // and directory stay. Returns how many files were written and removed, as "3 1". Code::Conflict: something runs in
  // it.
  net::awaitable<Result<std::string>> commit(std::shared_ptr<IsolatedSession> session);

  net::awaitable<void> shutdown();

 private:
  class ActiveRun;
  Result<void> make_places(const SessionSpec& spec, const api::CreateIsolatedSession& request);
  net::awaitable<Result<std::shared_ptr<SessionLink>>> link_for(SessionSpec spec);
  void watch(const std::shared_ptr<IsolatedSession>& session);
  static net::awaitable<void> watch_link(std::shared_ptr<IsolatedSession> session, std::shared_ptr<SessionLink> link);
  net::awaitable<void> end_when_idle(std::shared_ptr<IsolatedSession> session);
  Elsewhere enter(std::weak_ptr<IsolatedSession> session);

  RunHost& host_;
  CommandEnvironment& environment_;
  const IsolationOptions options_;
  const std::string temp_directory_;
  std::string unavailable_;
  std::optional<Probe> probed_;
  SessionService shells_;
  std::map<std::string, std::shared_ptr<IsolatedSession>, std::less<>> sessions_;
  TaskGroup tasks_;
};

}  // namespace osb::execd
