#include "execd/isolated/isolated_routes.h"

#include <sys/socket.h>
#include <unistd.h>

#include "async/descriptor.h"
#include "base/json_escape.h"
#include "base/parse_number.h"
#include "base/time.h"
#include "execd/daemon/access_token.h"
#include "execd/isolated/packet.h"
#include "execd/isolated/session_init.h"
#include "execd/run/output_log_response.h"
#include "http/reverse_proxy.h"
#include "http/url.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

constexpr std::string_view kBadRequest = "INVALID_REQUEST_BODY";
constexpr std::string_view kRuntimeError = "RUNTIME_ERROR";
constexpr std::string_view kPrefix = "/v1/isolated/session/";
constexpr std::string_view kCursorHeader = "EXECD-ISOLATED-TAIL-CURSOR";
constexpr std::string_view kSkippedHeader = "EXECD-ISOLATED-SKIPPED-BYTES";
constexpr std::size_t kMaxBody = 16 * 1024 * 1024;

using SessionPtr = std::shared_ptr<IsolatedSession>;
using Status = IsolatedSession::Status;

http::Response problem_of(const Error& error) {
  switch (error.code) {
    case Code::InvalidRequest:
    case Code::TooLarge:
      return http::problem(400, kBadRequest, error.message);
    case Code::Unsupported:
      return http::problem(503, "NOT_SUPPORTED", error.message);
    case Code::Unavailable:
      return http::problem(503, "SERVICE_UNAVAILABLE", error.message);
    case Code::Conflict:
      return http::problem(409, "CONFLICT", error.message);
    default:
      return http::problem(500, kRuntimeError, error.message);
  }
}

http::Response unknown_session(std::string_view id) {
  return http::problem(404, "SESSION_NOT_FOUND", "isolated session " + in_quotes(id) + ": not found");
}

// An answer instead of the session: it is unknown, or nothing can be done with it any more.
std::optional<http::Response> refuse(const SessionPtr& session, const http::Request& request) {
  if (!session) return unknown_session(request.params["id"]);
  if (session->status == Status::Active) return std::nullopt;
  const char* const why = session->status == Status::Dead ? " has died" : " has been destroyed";
  return http::problem(503, "SERVICE_UNAVAILABLE", "isolated session " + session->id + why + "; create another one");
}

std::string json_text(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string list_of(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) out += (out.size() > 1 ? "," : "") + json_text(text);
  return out + "]";
}

std::string parameters_json(const IsolatedSession& session) {
  const api::CreateIsolatedSession& request = session.request;
  std::string out = std::string(R"("profile":)") + (request.strict ? R"("strict")" : R"("balanced")");
  if (request.has_workspace && request.mounts.size() == 1) {
    const api::IsolatedMount& workspace = request.mounts.front();
    out += R"(,"workspace":{"path":)" + json_text(workspace.path) + R"(,"mode":)" + json_text(workspace.mode) + "}";
  }
  out += R"(,"overlays":[)";
  for (std::size_t i = 0; i < request.mounts.size(); ++i) {
    const api::IsolatedMount& mount = request.mounts[i];
    out +=
        (i > 0 ? "," : "") + std::string(R"({"path":)") + json_text(mount.path) + R"(,"mode":)" + json_text(mount.mode);
    if (mount.mode == "overlay") out += std::string(R"(,"persist":)") + (mount.persist ? "true" : "false");
    out += "}";
  }
  out += R"(],"extra_writable":)" + list_of(request.extra_writable) + R"(,"binds":[)";
  for (std::size_t i = 0; i < request.binds.size(); ++i) {
    const api::IsolatedBind& bind = request.binds[i];
    out += (i > 0 ? "," : "") + std::string(R"({"source":)") + json_text(bind.source) + R"(,"dest":)" +
           json_text(bind.dest) + R"(,"readonly":)" + (bind.read_only ? "true}" : "false}");
  }
  out += std::string(R"(],"share_net":)") + (request.share_net ? "true" : "false");
  if (request.env_given) {
    out += std::string(R"(,"env_passthrough":{"mode":)") + (request.env_allow ? R"("allow")" : R"("deny")") +
           R"(,"keys":)" + list_of(request.env_keys) + "}";
  }
  if (request.uid) out += R"(,"uid":)" + std::to_string(*request.uid);
  if (request.gid) out += R"(,"gid":)" + std::to_string(*request.gid);
  return out + R"(,"uid_mode":)" + json_text(request.uid_mode) + R"(,"idle_timeout_seconds":)" +
         std::to_string(request.idle_timeout.count());
}

std::string summary_json(const IsolatedSession& session, const Clock& clock) {
  const char* const status = session.status == Status::Active ? "active"
                             : session.status == Status::Dead ? "dead"
                                                              : "destroyed";
  std::string out = R"({"session_id":)" + json_text(session.id) + R"(,"status":")" + status + R"(","created_at":")" +
                    format_timestamp_nanos(session.created_at) + R"(","last_run_at":")" +
                    format_timestamp_nanos(session.last_run_at) + '"';
  const auto timeout = session.request.idle_timeout;
  if (session.status == Status::Active && timeout.count() > 0) {
    const auto since = session.active > 0 ? clock.steady_now() : session.idle_since;
    const auto left = since + timeout - clock.steady_now();
    out += R"(,"idle_remaining_seconds":)" +
           std::to_string(std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::seconds>(left).count()));
  }
  return out + "," + parameters_json(session) + "}";
}

std::string run_json(const IsolatedSession& session, const IsolatedRun& run) {
  std::string out = R"({"session_id":)" + json_text(session.id) + R"(,"run_id":)" + json_text(run.id) +
                    R"(,"running":)" + (run.outcome ? "false" : "true") + R"(,"started_at":")" +
                    format_timestamp_nanos(run.started_at) + '"';
  if (run.outcome) {
    out += R"(,"exit_code":)" + std::to_string(run.outcome->exit_code);
    if (!run.outcome->error.empty()) out += R"(,"error":)" + json_text(run.outcome->error);
    out += R"(,"finished_at":")" + format_timestamp_nanos(run.finished_at) + '"';
  }
  return out + "}";
}

std::string wall_json(const WallState& wall) {
  return R"({"state":)" + json_text(wall.state) + R"(,"message":)" + json_text(wall.message) + "}";
}

// A connection to a process that serves the files of one session, which that makes for it. The origin is its id.
class SessionConnector final : public http::Connector {
 public:
  explicit SessionConnector(IsolatedService& service) : service_(service) {}

  net::awaitable<Result<std::unique_ptr<http::Transport>>> connect(std::string origin,
                                                                   std::chrono::milliseconds) override {
    const SessionPtr session = service_.find(origin);
    if (!session || session->status != Status::Active) co_return fail(Code::Unavailable, "the session has ended");
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) co_return sys::from_errno("socketpair", errno);
    UniqueFd ours(ends[0]), theirs(ends[1]);
    if (auto sent = session->link->send(session_message::kFiles, theirs.get()); !sent) co_return Failure(sent.error());
    co_return http::make_plain_transport(co_await net::this_coro::executor, std::move(ours));
  }

 private:
  IsolatedService& service_;
};

// The pieces of a diff on their way to a client.
struct DiffStream {
  Descriptor socket;
  std::optional<Packet> next;

  net::awaitable<Result<void>> send(http::BodyWriter& writer) {
    for (;;) {
      if (!next || next->data.empty()) co_return fail(Code::Internal, "the session ended during the diff");
      if (next->data[0] == session_message::kDone) co_return Result<void>();
      if (next->data[0] != session_message::kPiece) co_return fail(Code::Internal, next->data.substr(1));
      if (auto sent = co_await writer.write(std::string_view(next->data).substr(1)); !sent) co_return sent;
      if (auto received = co_await receive(); !received) co_return received;
    }
  }

  net::awaitable<Result<void>> receive() {
    if (auto ready = co_await socket.wait_readable(); !ready) co_return ready;
    auto packet = receive_packet(socket.fd());
    if (!packet) co_return Failure(packet.error());
    next = std::move(*packet);
    co_return Result<void>();
  }
};

}  // namespace

IsolatedRoutes::IsolatedRoutes(IsolatedService& service, std::string init_mode)
    : service_(service),
      init_mode_(std::move(init_mode)),
      client_(std::make_unique<SessionConnector>(service), {.idle_per_origin = 0}) {}

net::awaitable<http::Response> IsolatedRoutes::create(http::Request& request) {
  const auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return problem_of(body.error());
  const auto wanted = api::decode_create_isolated_session(*body);
  if (!wanted) co_return problem_of(wanted.error());
  const auto session = co_await service_.create(*wanted);
  if (!session) co_return problem_of(session.error());
  co_return http::json_response(201, R"({"session_id":)" + json_text((*session)->id) + R"(,"created_at":")" +
                                         format_timestamp_nanos((*session)->created_at) + R"(",)" +
                                         parameters_json(**session) + "}");
}

net::awaitable<http::Response> IsolatedRoutes::run(http::Request& request) {
  const auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return problem_of(body.error());
  auto wanted = api::decode_run_isolated(*body);
  if (!wanted) co_return problem_of(wanted.error());
  auto session = service_.find(request.params["id"]);
  if (auto refused = refuse(session, request)) co_return std::move(*refused);
  if (session->committing) co_return http::problem(409, "CONFLICT", "the session is being committed");
  if (!wanted->background) {
    co_return http::event_stream(
        [this, session = std::move(session), run = std::move(*wanted)](http::BodyWriter& writer) mutable {
          return service_.run(std::move(session), std::move(run), writer);
        });
  }
  for (const api::IsolatedMount& mount : session->request.mounts) {
    if (!mount.persist) {
      co_return http::problem(
          400, kBadRequest, "/background: not in a session with an overlay that does not persist (" + mount.path + ")");
    }
  }
  const auto run = service_.run_in_background(session, *wanted);
  if (!run) co_return problem_of(run.error());
  co_return http::json_response(202, R"({"session_id":)" + json_text(session->id) + R"(,"run_id":)" +
                                         json_text((*run)->id) + R"(,"started_at":")" +
                                         format_timestamp_nanos((*run)->started_at) + R"("})");
}

net::awaitable<http::Response> IsolatedRoutes::diff(http::Request& request) {
  const auto session = service_.find(request.params["id"]);
  if (auto refused = refuse(session, request)) co_return std::move(*refused);
  auto sockets = make_packet_sockets();
  if (!sockets) co_return problem_of(sockets.error());
  if (auto sent = session->link->send(session_message::kDiff, sockets->second.get()); !sent) {
    co_return http::problem(503, "SERVICE_UNAVAILABLE", sent.error().message);
  }
  sockets->second.reset();
  auto opened = Descriptor::open(co_await net::this_coro::executor, std::move(sockets->first));
  if (!opened) co_return problem_of(opened.error());
  const auto stream = std::make_shared<DiffStream>(DiffStream{std::move(*opened), {}});
  if (auto first = co_await stream->receive(); !first) co_return problem_of(first.error());
  if (!stream->next || stream->next->data.empty()) co_return http::problem(500, kRuntimeError, "the session ended");
  const char kind = stream->next->data[0];
  if (kind == session_message::kTooLarge) co_return http::problem(413, "DIFF_TOO_LARGE", stream->next->data.substr(1));
  if (kind == session_message::kFailed) co_return http::problem(500, kRuntimeError, stream->next->data.substr(1));
  http::Response response;
  response.headers.set("Content-Type", "application/gzip");
  response.body = http::StreamBody{[stream](http::BodyWriter& writer) { return stream->send(writer); }, {}};
  co_return response;
}

net::awaitable<http::Response> IsolatedRoutes::commit(http::Request& request) {
  const auto session = service_.find(request.params["id"]);
  if (auto refused = refuse(session, request)) co_return std::move(*refused);
  const auto counts = co_await service_.commit(session);
  if (!counts) co_return problem_of(counts.error());
  const std::size_t space = std::min(counts->find(' '), counts->size() - 1);
  co_return http::json_response(200, R"({"session_id":)" + json_text(session->id) + R"(,"written":)" +
                                         counts->substr(0, space) + R"(,"removed":)" + counts->substr(space + 1) + "}");
}

net::awaitable<http::Response> IsolatedRoutes::capabilities() {
  const auto probe = co_await service_.probe();
  const bool available = probe.has_value();
  const SessionWalls none{{"disabled", "no session can be made"},
                          {"disabled", "no session can be made"},
                          {"disabled", "no session can be made"}};
  const SessionWalls& shown = available ? probe->walls : none;
  const char* const yes = available ? "true" : "false";
  std::string out = std::string(R"({"available":)") + yes + R"(,"isolator":)" +
                    json_text(!available                          ? ""
                              : service_.options().socket.empty() ? "namespaces"
                                                                  : "sandboxd") +
                    R"(,"version":)" + json_text(OSB_VERSION) + R"(,"message":)" +
                    json_text(available ? "" : probe.error().message) + R"(,"setpriv_available":)" + yes +
                    R"(,"userns_available":)" + (available && probe->user_namespaces ? "true" : "false") +
                    R"(,"commit_supported":)" + yes + R"(,"diff_supported":)" + yes + R"(,"hardening":{"init_mode":)" +
                    json_text(init_mode_) + R"(,"signal_shield":)" + yes + R"(,"cap_drop":)" +
                    wall_json(shown.cap_drop) + R"(,"seccomp":)" + wall_json(shown.seccomp) + R"(,"landlock":)" +
                    wall_json(shown.landlock) + R"(,"ebpf":)" +
                    wall_json({"unsupported", "execd loads no programs into the kernel"}) + "}}";
  co_return http::json_response(200, std::move(out));
}

net::awaitable<http::Response> IsolatedRoutes::files(http::Request& request) {
  const auto session = service_.find(request.params["id"]);
  if (auto refused = refuse(session, request)) co_return std::move(*refused);
  http::ProxyTarget to;
  to.origin = session->id;
  to.target = request.target.substr(request.target.find('/', kPrefix.size()));
  to.host = "session";
  to.drop = {std::string(kAccessTokenHeader)};
  to.timeouts.head = {};
  to.on_error = [](const Error& error) {
    return http::problem(503, "SERVICE_UNAVAILABLE", "the session does not answer: " + error.message);
  };
  co_return co_await http::forward(client_, request, std::move(to));
}

void IsolatedRoutes::add(http::Router& router) {
  using http::Request;
  using http::Response;
  const std::string one = std::string(kPrefix) + "{id}";
  router.post("/v1/isolated/session", [this](Request& request) { return create(request); });
  router.get("/v1/isolated/sessions", [this](Request&) -> net::awaitable<Response> {
    std::string out = R"({"sessions":[)";
    for (const auto& [id, session] : service_.sessions())
      out += (out.ends_with('[') ? "" : ",") + summary_json(*session, service_.clock());
    co_return http::json_response(200, out + "]}");
  });
  router.get("/v1/isolated/capabilities", [this](Request&) { return capabilities(); });
  router.get(one, [this](Request& request) -> net::awaitable<Response> {
    const auto session = service_.find(request.params["id"]);
    if (!session) co_return unknown_session(request.params["id"]);
    co_return http::json_response(200, summary_json(*session, service_.clock()));
  });
  router.del(one, [this](Request& request) -> net::awaitable<Response> {
    const std::string id = request.params["id"];
    if (!co_await service_.remove(id)) co_return unknown_session(id);
    co_return http::empty_response();
  });
  router.post(one + "/run", [this](Request& request) { return run(request); });
  router.get(one + "/diff", [this](Request& request) { return diff(request); });
  router.post(one + "/commit", [this](Request& request) { return commit(request); });
  const auto with_run = [this](auto answer) {
    return [this, answer](Request& request) -> net::awaitable<Response> {
      const auto session = service_.find(request.params["id"]);
      if (!session) co_return unknown_session(request.params["id"]);
      const auto run = session->runs.find(request.params["run"]);
      if (run == session->runs.end()) {
        co_return http::problem(404, "RUN_NOT_FOUND", "run " + in_quotes(request.params["run"]) + ": not found");
      }
      co_return answer(*session, *run->second, request);
    };
  };
  router.get(one + "/runs/{run}", with_run([](const IsolatedSession& session, const IsolatedRun& run, Request&) {
               return http::json_response(200, run_json(session, run));
             }));
  router.get(one + "/runs/{run}/logs", with_run([](const IsolatedSession&, const IsolatedRun& run, Request& request) {
               const auto cursor =
                   parse_number<std::int64_t>(http::Query::parse(request.query()).get("cursor")).value_or(0);
               if (cursor < 0) return http::problem(400, kBadRequest, "cursor must not be negative");
               return output_log_response(run.output.get(), 0, static_cast<std::uint64_t>(cursor), kCursorHeader,
                                          kSkippedHeader);
             }));
  const auto serve_files = [this](Request& request) { return files(request); };
  for (const char* tail : {"/files", "/files/{rest*}", "/directories", "/directories/{rest*}"}) {
    for (const char* method : {"GET", "POST", "DELETE"}) router.add(method, one + tail, serve_files);
  }
}

}  // namespace osb::execd
