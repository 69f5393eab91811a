#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "api/execd_requests.h"
#include "async/net.h"
#include "async/timer.h"
#include "base/error.h"
#include "execd/metrics/telemetry.h"
#include "execd/run/environment.h"
#include "execd/run/interruptible.h"
#include "execd/run/run.h"
#include "execd/run/run_host.h"
#include "execd/session/shell_state.h"
#include "http/body.h"

namespace osb::execd {

// Changes the plan of each shell of a session that runs in another place than execd (isolated/). The returned value is
// kept until the run has ended. The session does not check the directory of such shells.
using Elsewhere = std::function<Result<std::shared_ptr<void>>(sys::SpawnPlan&)>;

// A shell's state that lives from run to run; a process exists during a run only. Runs happen one at a time, in the
// order they were asked for.
class Session {
 public:
  // `variables`: of its first run, in addition to the daemon's environment.
  Session(std::string id, std::string cwd, Environment variables, Elsewhere elsewhere = {})
      : id_(std::move(id)),
        variables_(std::move(variables)),
        elsewhere_(std::move(elsewhere)),
        state_(std::move(cwd)) {}

  const std::string& id() const { return id_; }
  // A run is under way, or waits for its turn.
  bool busy() const { return !queue_.empty(); }

 private:
  friend class SessionService;
  class QueuePlace;

  const std::string id_;
  const Environment variables_;
  Elsewhere elsewhere_;
  ShellState state_;
  std::shared_ptr<Run> active_;
  std::list<QueuePlace*> queue_;  // the first one runs
  bool deleted_ = false;
};

// Bash sessions. One thread. Everything given to the constructor outlives it, and it outlives the loop's last turn.
class SessionService final : public Interruptible {
 public:
  SessionService(RunHost& host, CommandEnvironment& environment, Telemetry& telemetry = no_telemetry());
  ~SessionService() override;

  // The new session's id. It begins with the daemon's environment and the present variables of the EXECD_ENVS file. The
  // directory is created where it is missing; no process starts.
  Result<std::string> create(const api::CreateSession& request);
  // A session whose shells run elsewhere and begin in `cwd` with these variables alone.
  Result<std::shared_ptr<Session>> create(std::string cwd, Environment variables, Elsewhere elsewhere);
  // Null: unknown.
  std::shared_ptr<Session> find(std::string_view id) const;

  // The request with its cwd as a checked absolute path; Code::InvalidRequest where that is no directory.
  Result<api::RunInSession> check(api::RunInSession request) const;
  // Waits for the session's turn, runs, and streams the events. A client that leaves takes its run with it, also while
  // that waits. `writer` outlives the call.
  net::awaitable<Result<void>> run(std::shared_ptr<Session> session, api::RunInSession request,
                                   http::BodyWriter& writer);

  // Kills what runs in the session and forgets it; runs that wait end with an error event. False: unknown.
  net::awaitable<bool> remove(std::string id);
  net::awaitable<std::optional<Result<void>>> interrupt(std::string id) override;

  // A process that runs `command` with the session's present state and changes nothing of it. The caller keeps the
  // second value until the process has started.
  Result<std::pair<sys::SpawnPlan, std::shared_ptr<void>>> plan_beside(Session& session, const std::string& command);

  // Takes no more sessions and runs, kills the running ones and returns when their processes have ended.
  net::awaitable<void> shutdown();

  std::size_t size() const { return sessions_.size(); }

 private:
  std::shared_ptr<Run> start(const std::shared_ptr<Session>& session, const std::shared_ptr<Session::QueuePlace>& place,
                             const api::RunInSession& request);
  // `kept` lives until the run has ended.
  Result<void> plan(Session& session, const api::RunInSession& request, sys::SpawnPlan& process,
                    std::shared_ptr<class ShellScript>& script, std::shared_ptr<void>& kept);
  static net::awaitable<void> end(std::shared_ptr<Session> session, Run::StopCause cause);

  RunHost& host_;
  CommandEnvironment& environment_;
  Telemetry& telemetry_;
  std::map<std::string, std::shared_ptr<Session>, std::less<>> sessions_;
  bool closing_ = false;
};

}  // namespace osb::execd
