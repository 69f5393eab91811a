#include "execd/session/session_service.h"

#include <sys/stat.h>
#include <utility>
#include <vector>

#include "async/race.h"
#include "base/id.h"
#include "execd/owner/identity.h"
#include "execd/run/event_stream.h"
#include "execd/run/outcome.h"
#include "execd/session/shell_script.h"

namespace osb::execd {
namespace {

using namespace race;

constexpr std::chrono::milliseconds kDefaultTimeout = std::chrono::hours(24);
// A reader that does not keep up holds the shell back, so nothing is ever dropped from this.
constexpr std::size_t kRingBytes = 256 * 1024;

// That a process can begin in (see SpawnPlan::cwd).
bool is_directory(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && refuse_magic_links(path);
}

// The directory itself or, where it was removed, the nearest one above it: a session must stay usable.
std::string existing_directory(std::string path) {
  while (path.size() > 1 && !is_directory(path)) path = parent_of(path);
  return path;
}

}  // namespace

// A place in the queue of a session's runs. Leaving it lets the next one begin.
class Session::QueuePlace {
 public:
  QueuePlace(std::shared_ptr<Session> session, const net::any_io_executor& executor)
      : session_(std::move(session)), granted_(executor) {
    place_ = session_->queue_.insert(session_->queue_.end(), this);
    if (session_->queue_.front() == this) granted_.set();
  }
  ~QueuePlace() { release(); }
  QueuePlace(const QueuePlace&) = delete;
  QueuePlace& operator=(const QueuePlace&) = delete;

  bool granted() const { return granted_.is_set(); }
  void grant() { granted_.set(); }
  net::awaitable<bool> wait() { return granted_.wait(); }

  void release() {
    const auto session = std::exchange(session_, nullptr);
    if (!session) return;
    const bool was_first = session->queue_.front() == this;
    session->queue_.erase(place_);
    if (was_first && !session->queue_.empty()) session->queue_.front()->grant();
  }

 private:
  std::shared_ptr<Session> session_;
  std::list<QueuePlace*>::iterator place_;
  Event granted_;
};

SessionService::SessionService(RunHost& host, CommandEnvironment& environment, Telemetry& telemetry)
    : host_(host), environment_(environment), telemetry_(telemetry) {}

SessionService::~SessionService() = default;

Result<std::string> SessionService::create(const api::CreateSession& request) {
  if (closing_) return fail(Code::Unavailable, "the daemon is shutting down");
  auto cwd = environment_.new_directory(request.cwd);
  if (!cwd) return Failure(cwd.error());
  auto session = std::make_shared<Session>(new_uuid(), std::move(*cwd), environment_.from_file());
  sessions_.emplace(session->id(), session);
  return session->id();
}

Result<std::shared_ptr<Session>> SessionService::create(std::string cwd, Environment variables, Elsewhere elsewhere) {
  if (closing_) return fail(Code::Unavailable, "the daemon is shutting down");
  auto session = std::make_shared<Session>(new_uuid(), std::move(cwd), std::move(variables), std::move(elsewhere));
  sessions_.emplace(session->id(), session);
  return session;
}

std::shared_ptr<Session> SessionService::find(std::string_view id) const {
  const auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : it->second;
}

Result<api::RunInSession> SessionService::check(api::RunInSession request) const {
  if (!request.cwd.empty()) {
    auto cwd = environment_.directory(request.cwd, environment_.daemon());
    if (!cwd) return Failure(cwd.error());
    request.cwd = std::move(*cwd);
  }
  return request;
}

Result<void> SessionService::plan(Session& session, const api::RunInSession& request, sys::SpawnPlan& process,
                                  std::shared_ptr<ShellScript>& script, std::shared_ptr<void>& kept) {
  const auto shell = environment_.shell();
  if (!shell) return Failure(shell.error());
  Environment env = session.elsewhere_ ? Environment() : environment_.daemon();
  for (const auto& [name, value] : session.variables_) env.insert_or_assign(name, value);
  auto made = ShellScript::make(*shell, session.state_.restore_script(env), request.command);
  if (!made) return Failure(made.error());
  script = std::make_shared<ShellScript>(std::move(*made));

  process.cwd = !request.cwd.empty() ? request.cwd
                : session.elsewhere_ ? session.state_.cwd()
                                     : existing_directory(session.state_.cwd());
  env.insert_or_assign("PWD", process.cwd);  // the way it was reached, symbolic links included
  // Functions that came with the environment are part of the saved state, unless the user removed them.
  if (session.state_.saved()) std::erase_if(env, [](const auto& e) { return e.first.starts_with("BASH_FUNC_"); });
  process.env = to_environ(env);
  script->apply(process);
  if (!session.elsewhere_) return {};
  auto made_elsewhere = session.elsewhere_(process);
  if (!made_elsewhere) return Failure(made_elsewhere.error());
  kept = std::move(*made_elsewhere);
  return {};
}

Result<std::pair<sys::SpawnPlan, std::shared_ptr<void>>> SessionService::plan_beside(Session& session,
                                                                                     const std::string& command) {
  struct Kept {
    std::shared_ptr<ShellScript> script;
    std::shared_ptr<void> elsewhere;
  };
  const auto kept = std::make_shared<Kept>();
  sys::SpawnPlan process;
  api::RunInSession request;
  request.command = command;
  if (auto planned = plan(session, request, process, kept->script, kept->elsewhere); !planned) {
    return Failure(planned.error());
  }
  return std::pair(std::move(process), std::shared_ptr<void>(kept));
}

std::shared_ptr<Run> SessionService::start(const std::shared_ptr<Session>& session,
                                           const std::shared_ptr<Session::QueuePlace>& place,
                                           const api::RunInSession& request) {
  RunPlan run_plan;
  run_plan.id = new_hex_id();
  run_plan.init_text = session->id();
  run_plan.merge_stderr = true;
  run_plan.drop_empty_lines = true;
  run_plan.timeout = request.timeout.count() > 0 ? request.timeout : kDefaultTimeout;
  run_plan.log = {kRingBytes, 0, {}, true};
  std::shared_ptr<ShellScript> script;
  std::shared_ptr<void> kept;
  Result<void> ready;
  if (session->deleted_ || closing_) {
    ready = fail(Code::Cancelled, "the session was deleted");
  } else {
    ready = plan(*session, request, run_plan.process, script, kept);
  }
  run_plan.on_end = [session, place, script, kept, timeout = run_plan.timeout, &telemetry = telemetry_](
                        const RunEnd& end, EventWriter& writer) mutable {
    telemetry.record_execution("run_in_session", end.status.ok(), end.took);
    if (end.timed_out) {
      const std::string after = "timeout after " + std::to_string(timeout.count()) + " ms";
      writer.error(kCommandError, "-1", std::vector<std::string>{after, outcome_of(end.status).error}, end.reason);
    } else {
      write_outcome(writer, end);
    }
    session->state_.accept(script->saved());
    session->active_.reset();
    script.reset();
    place->release();
  };
  auto run = std::make_shared<Run>(host_, std::move(run_plan));
  if (ready) ready = run->start();
  if (ready) {
    session->active_ = run;
  } else {
    run->fail(kCommandError, ready.error().message);
    place->release();
  }
  return run;
}

net::awaitable<Result<void>> SessionService::run(std::shared_ptr<Session> session, api::RunInSession request,
                                                 http::BodyWriter& writer) {
  const auto place = std::make_shared<Session::QueuePlace>(session, host_.executor());
  if (!place->granted()) {
    if (auto sent = co_await writer.flush(); !sent) co_return sent;
    co_await (place->wait() || writer.peer_closed());
    if (!place->granted()) co_return fail(Code::Cancelled, "the client left before its turn");
  }
  const std::shared_ptr<Run> run = start(session, place, request);
  auto ended = co_await (stream_events(run->log(), 0, writer) || writer.peer_closed());
  const bool streamed = ended.index() == 0 && std::get<0>(ended).has_value();
  if (streamed) co_return Result<void>();
  run->kill_tree();
  co_return fail(Code::Cancelled, "the client left");
}

net::awaitable<void> SessionService::end(std::shared_ptr<Session> session, Run::StopCause cause) {
  session->deleted_ = true;
  for (Session::QueuePlace* place : session->queue_) place->grant();
  if (const auto run = session->active_) co_await run->stop(std::chrono::milliseconds(0), cause);
}

net::awaitable<bool> SessionService::remove(std::string id) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) co_return false;
  const auto session = it->second;
  sessions_.erase(it);
  co_await end(session, Run::StopCause::UserInterrupt);
  co_return true;
}

net::awaitable<std::optional<Result<void>>> SessionService::interrupt(std::string id) {
  if (!co_await remove(std::move(id))) co_return std::nullopt;
  co_return Result<void>();
}

net::awaitable<void> SessionService::shutdown() {
  closing_ = true;
  const auto all = std::exchange(sessions_, {});
  for (const auto& [id, session] : all) {
    if (session->active_) session->active_->kill_tree();
  }
  for (const auto& [id, session] : all) co_await end(session, Run::StopCause::Shutdown);
}

}  // namespace osb::execd
