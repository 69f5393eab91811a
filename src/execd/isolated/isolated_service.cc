#include "execd/isolated/isolated_service.h"

#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "async/descriptor.h"
#include "async/race.h"
#include "base/id.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "execd/isolated/isolated_plan.h"
#include "execd/isolated/packet.h"
#include "execd/isolated/run_proxy.h"
#include "execd/isolated/session_init.h"
#include "execd/run/small_file.h"
#include "sys/staged_file.h"

namespace osb::execd {
namespace {

using namespace race;

constexpr std::size_t kMaxSessions = 256;
constexpr std::size_t kMaxRuns = 100;  // of one session, finished ones included
constexpr std::uint64_t kRunLogBytes = 16ULL * 1024 * 1024;
constexpr std::size_t kRunRingBytes = 64 * 1024;
constexpr std::chrono::seconds kEnding(10);
constexpr std::chrono::minutes kCommitting(30);

bool may_administer() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  return ::syscall(SYS_capget, &header, &data[0]) == 0 && (data[0].effective >> CAP_SYS_ADMIN & 1) != 0;
}

std::uint64_t memory_of_sandbox() {
  struct sysinfo host{};
  std::uint64_t out = ::sysinfo(&host) == 0 ? std::uint64_t{host.totalram} * host.mem_unit : 1ULL << 30;
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    auto text = read_small_file(path, 64);
    if (!text) continue;
    while (text->ends_with('\n')) text->pop_back();
    if (const auto limit = parse_number<std::uint64_t>(*text)) out = std::min(out, *limit);
  }
  return out;
}

// The variables of one run, as a shell takes them.
std::string with_exports(const api::RunIsolated& request) {
  std::string out;
  for (const auto& [name, value] : request.envs) {
    out += "export " + name + "='";
    for (const char c : value) c == '\'' ? void(out += "'\\''") : void(out += c);
    out += "'; ";
  }
  return out + request.code;
}

}  // namespace

// Holds the idle clock of a session while a run is under way.
class IsolatedService::ActiveRun {
 public:
  ActiveRun(const Clock& clock, std::shared_ptr<IsolatedSession> session)
      : clock_(clock), session_(std::move(session)) {
    ++session_->active;
    session_->last_run_at = clock_.now();
    session_->changed.notify_all();
  }
  ~ActiveRun() {
    --session_->active;
    session_->idle_since = clock_.steady_now();
    session_->changed.notify_all();
  }
  ActiveRun(const ActiveRun&) = delete;
  ActiveRun& operator=(const ActiveRun&) = delete;

 private:
  const Clock& clock_;
  std::shared_ptr<IsolatedSession> session_;
};

IsolatedService::IsolatedService(RunHost& host, CommandEnvironment& environment, IsolationOptions options,
                                 std::string temp_directory)
    : host_(host),
      environment_(environment),
      options_(std::move(options)),
      temp_directory_(std::move(temp_directory)),
      shells_(host, environment),
      tasks_(host.executor()) {
  if (::geteuid() != 0) {
    unavailable_ = "execd does not run as root";
  } else if (options_.socket.empty() && !may_administer()) {
    unavailable_ =
        "this sandbox may not make namespaces: create it with extensions[\"bootstrap.execd.isolation\"] = \"enable\"";
  }
}

net::awaitable<Result<std::shared_ptr<SessionLink>>> IsolatedService::link_for(SessionSpec spec) {
  if (!unavailable_.empty()) co_return fail(Code::Unavailable, unavailable_);
  auto link = co_await SessionLink::make(host_.executor(), options_, std::move(spec));
  if (!link) co_return Failure(link.error());
  co_return std::make_shared<SessionLink>(std::move(*link));
}

net::awaitable<Result<IsolatedService::Probe>> IsolatedService::probe() {
  if (!probed_) {
    SessionSpec empty;
    empty.upper_bytes = 1 << 20;
    empty.user_namespace = true;
    auto link = co_await link_for(empty);
    const bool user_namespaces = link.has_value();
    if (!link && link.error().code == Code::Unsupported) {
      empty.user_namespace = false;
      link = co_await link_for(std::move(empty));
    }
    if (!link) co_return Failure(link.error());
    probed_ = Probe{(*link)->walls(), user_namespaces};
  }
  co_return *probed_;
}

// The workspace and the places of binds, which the request may name before they exist.
Result<void> IsolatedService::make_places(const SessionSpec& spec, const api::CreateIsolatedSession& request) {
  for (const api::IsolatedMount& mount : request.mounts) {
    if (auto made = sys::make_directories(mount.path, 0755); !made) {
      return fail(Code::InvalidRequest, mount.path + ": " + made.error().message);
    }
  }
  for (const SessionMount& mount : spec.mounts) {
    struct stat info{};
    if (mount.source == mount.path || ::stat(mount.source.c_str(), &info) < 0 || !S_ISDIR(info.st_mode)) continue;
    if (auto made = sys::make_directories(mount.path, 0755); !made) {
      return fail(Code::InvalidRequest, mount.path + ": " + made.error().message);
    }
  }
  return {};
}

net::awaitable<Result<std::shared_ptr<IsolatedSession>>> IsolatedService::create(api::CreateIsolatedSession request) {
  if (!unavailable_.empty()) co_return fail(Code::Unavailable, unavailable_);
  if (sessions_.size() >= kMaxSessions) {
    co_return fail(Code::Unavailable, "there are 256 isolated sessions already; delete one");
  }
  auto spec = plan_isolated_session(request, options_, memory_of_sandbox());
  if (!spec) co_return Failure(spec.error());
  if (auto made = co_await host_.pool().run([&] { return make_places(*spec, request); }); !made) {
    co_return Failure(made.error());
  }
  auto link = co_await link_for(*spec);
  if (!link && link.error().code == Code::Unsupported) {
    co_return fail(Code::Unsupported, "/uid_mode: user namespaces are not available in this sandbox; use setpriv (" +
                                          link.error().message + ")");
  }
  if (!link) co_return Failure(link.error());
  auto session = std::make_shared<IsolatedSession>(host_.executor());
  auto shell = shells_.create(request.mounts.front().path, isolated_environment(request, environment_.for_command({})),
                              enter(session));
  if (!shell) co_return Failure(shell.error());
  session->shell = std::move(*shell);
  session->id = session->shell->id();
  session->request = std::move(request);
  session->spec = std::move(*spec);
  session->link = std::move(*link);
  session->created_at = session->last_run_at = host_.clock().now();
  session->idle_since = host_.clock().steady_now();
  sessions_.emplace(session->id, session);
  watch(session);
  if (session->request.idle_timeout.count() > 0) tasks_.spawn("idle isolated session", end_when_idle(session));
  co_return session;
}

Elsewhere IsolatedService::enter(std::weak_ptr<IsolatedSession> session) {
  return [weak = std::move(session)](sys::SpawnPlan& plan) -> Result<std::shared_ptr<void>> {
    const auto self = weak.lock();
    if (!self || self->status != IsolatedSession::Status::Active) {
      return fail(Code::Unavailable, "the isolated session has ended");
    }
    auto request = std::make_shared<UniqueFd>();
    if (auto wrapped = wrap_in_proxy(plan, self->link->control(), *request); !wrapped) return Failure(wrapped.error());
    return std::shared_ptr<void>(request);
  };
}

void IsolatedService::watch(const std::shared_ptr<IsolatedSession>& session) {
  tasks_.spawn("isolated session", watch_link(session, session->link));
}

net::awaitable<void> IsolatedService::watch_link(std::shared_ptr<IsolatedSession> session,
                                                 std::shared_ptr<SessionLink> link) {
  co_await link->ended();
  if (session->link != link || session->committing) co_return;  // another one has taken its place
  if (session->status == IsolatedSession::Status::Active) {
    session->status = IsolatedSession::Status::Dead;
    log_warn("isolated session died", {{"id", session->id}});
  }
  session->gone.set();
  session->changed.notify_all();
}

net::awaitable<void> IsolatedService::end_when_idle(std::shared_ptr<IsolatedSession> session) {
  while (session->status == IsolatedSession::Status::Active) {
    if (session->active > 0) {
      if (!co_await session->changed.wait()) co_return;
      continue;
    }
    const auto deadline = session->idle_since + session->request.idle_timeout;
    const auto left = deadline - host_.clock().steady_now();
    if (left.count() > 0) {
      co_await (sleep_for(left) || session->changed.wait());
      continue;
    }
    session->status = IsolatedSession::Status::Destroyed;
    session->link->finish();
    log_info("isolated session was idle", {{"id", session->id}});
  }
}

std::shared_ptr<IsolatedSession> IsolatedService::find(std::string_view id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second;
}

net::awaitable<bool> IsolatedService::remove(std::string id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) co_return false;
  const auto session = found->second;
  sessions_.erase(found);
  if (session->status == IsolatedSession::Status::Active) session->status = IsolatedSession::Status::Destroyed;
  session->link->finish();
  session->changed.notify_all();
  co_await shells_.remove(session->id);
  co_await (session->gone.wait() || sleep_for(kEnding));
  co_return true;
}

net::awaitable<Result<void>> IsolatedService::run(std::shared_ptr<IsolatedSession> session, api::RunIsolated request,
                                                  http::BodyWriter& writer) {
  const ActiveRun active(host_.clock(), session);
  api::RunInSession run;
  run.command = with_exports(request);
  run.timeout = request.timeout;
  co_return co_await shells_.run(session->shell, std::move(run), writer);
}

Result<std::shared_ptr<IsolatedRun>> IsolatedService::run_in_background(const std::shared_ptr<IsolatedSession>& session,
                                                                        const api::RunIsolated& request) {
  if (session->runs.size() >= kMaxRuns) {
    std::erase_if(session->runs, [](const auto& entry) { return entry.second->run == nullptr; });
    if (session->runs.size() >= kMaxRuns) return fail(Code::Unavailable, "there are 100 background runs already");
  }
  auto planned = shells_.plan_beside(*session->shell, with_exports(request));
  if (!planned) return Failure(planned.error());
  auto run = std::make_shared<IsolatedRun>();
  run->id = new_uuid();
  run->started_at = host_.clock().now();
  run->output = std::make_shared<OutputLog>(temp_directory_, kRunLogBytes);
  RunPlan plan;
  plan.id = new_hex_id();
  plan.init_text = run->id;
  plan.process = std::move(planned->first);
  plan.merge_stderr = true;
  plan.log = {kRunRingBytes, 0, {}, false};
  plan.raw = run->output;
  plan.on_end = [run, kept = planned->second, active = std::make_shared<ActiveRun>(host_.clock(), session)](
                    const RunEnd& end, EventWriter& writer) mutable {
    write_outcome(writer, end);
    run->outcome = outcome_of(end.status, end.reason);
    run->finished_at = end.at;
    run->run.reset();
    kept.reset();
    active.reset();
  };
  run->run = std::make_shared<Run>(host_, std::move(plan));
  const auto starting = run->run;
  if (auto started = starting->start(); !started) {
    run->run.reset();
    return Failure(started.error());
  }
  session->runs.emplace(run->id, run);
  return run;
}

net::awaitable<Result<std::string>> IsolatedService::commit(std::shared_ptr<IsolatedSession> session) {
  if (session->active > 0 || session->committing) {
    co_return fail(Code::Conflict, "something runs in the session; commit when it has ended");
  }
  session->committing = true;
  struct Release {
    ~Release() { session.committing = false; }
    IsolatedSession& session;
  } release{*session};
  const ActiveRun active(host_.clock(), session);
  auto sockets = make_packet_sockets();
  if (!sockets) co_return Failure(sockets.error());
  if (auto sent = session->link->send(session_message::kCommit, sockets->second.get()); !sent) {
    co_return fail(Code::Unavailable, sent.error().message);
  }
  sockets->second.reset();
  auto answer = Descriptor::open(host_.executor(), std::move(sockets->first));
  if (!answer) co_return Failure(answer.error());
  if (!co_await with_timeout(answer->wait_readable(), kCommitting)) {
    co_return fail(Code::Internal, "the commit did not end in time");
  }
  auto packet = receive_packet(answer->fd());
  if (!packet) co_return Failure(packet.error());
  if (!*packet || (*packet)->data.empty()) co_return fail(Code::Internal, "the session ended during the commit");
  if ((*packet)->data[0] != session_message::kDone) co_return fail(Code::Internal, (*packet)->data.substr(1));
  // The changes are in the sandbox now: the session goes on over them, without changes of its own.
  auto link = co_await link_for(session->spec);
  if (!link) {
    session->status = IsolatedSession::Status::Dead;
    session->link->finish();
    co_return Failure(link.error());
  }
  session->link->finish();
  session->link = std::move(*link);
  watch(session);
  co_return (*packet)->data.substr(1);
}

net::awaitable<void> IsolatedService::shutdown() {
  for (const auto& [id, session] : sessions_) {
    session->status = IsolatedSession::Status::Destroyed;
    session->link->finish();
    session->changed.notify_all();
  }
  co_await shells_.shutdown();
  co_await tasks_.close();
}

}  // namespace osb::execd
