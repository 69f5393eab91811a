#include <algorithm>
#include <opensandbox/async.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/timer.h"
#include "base/deadline.h"
#include "base/line_splitter.h"
#include "base/stopwatch.h"
#include "client/decode.h"
#include "client/errors.h"
#include "client/event_line.h"
#include "client/sandbox_state.h"

namespace opensandbox::async {

using std::chrono::milliseconds;

// For the removal of a sandbox whose create failed or was cancelled.
constexpr std::chrono::seconds kUndo(10);

Task<Peer> SandboxState::find(int port, std::optional<Peer>& known) {
  if (known) co_return *known;
  auto endpoint = co_await SandboxManager(client_).endpoint(id_, port);
  if (!endpoint) co_return Failure(std::move(endpoint.error()));
  auto peer = Peer::parse(endpoint->url);
  if (!peer) co_return peer;
  peer->headers = std::move(endpoint->headers);
  known = *peer;
  co_return peer;
}

Task<StreamReply> open_execd(SandboxPtr sandbox, Call call) {
  auto peer = co_await sandbox->execd();
  if (!peer) co_return co_await explained(std::move(sandbox), std::move(peer.error()));
  auto reply = co_await sandbox->wire()->open(std::move(*peer), std::move(call));
  if (reply) co_return reply;
  if (reply.error().kind == ErrorKind::Network) sandbox->forget();
  co_return co_await explained(std::move(sandbox), std::move(reply.error()));
}

namespace {

Task<Reply> call_unexplained(SandboxPtr sandbox, Call call) {
  auto peer = co_await sandbox->execd();
  if (!peer) co_return Failure(std::move(peer.error()));
  auto reply = co_await sandbox->wire()->call(std::move(*peer), std::move(call));
  if (!reply && reply.error().kind == ErrorKind::Network) sandbox->forget();
  co_return reply;
}

}  // namespace

Task<Reply> call_execd(SandboxPtr sandbox, Call call) {
  auto reply = co_await call_unexplained(sandbox, std::move(call));
  if (reply) co_return reply;
  co_return co_await explained(std::move(sandbox), std::move(reply.error()));
}

Task<void> tell_execd(SandboxPtr sandbox, Call call) {
  auto reply = co_await call_execd(std::move(sandbox), std::move(call));
  if (!reply) co_return Failure(std::move(reply.error()));
  co_return Result<void>();
}

namespace {

// --- readiness

struct Readiness {
  int attempts = 0;
  std::string last_error;
};

net::awaitable<Failure> too_late(SandboxPtr sandbox, ReadyOptions ready, Readiness tried) {
  const ConnectionConfig& config = sandbox->client().config();
  Error error{.kind = ErrorKind::ReadyTimeout, .code = "READY_TIMEOUT"};
  error.message = "sandbox " + sandbox->id() + " was not ready within " + std::to_string(ready.timeout.count()) +
                  " ms (" + std::to_string(tried.attempts) + " attempts, server " + config.domain +
                  ", use_server_proxy=" + (config.use_server_proxy ? "true" : "false") + ")";
  if (!tried.last_error.empty()) error.message += "; last: " + tried.last_error;
  const auto info = co_await SandboxManager(sandbox->client()).get(sandbox->id());
  if (info && info->status.state != state::kRunning) {
    error.message += "; the server says that it is " + info->status.state + ": " + info->status.message;
  } else if (!config.use_server_proxy) {
    error.message += "; if the sandbox's address cannot be reached from here, set use_server_proxy";
  }
  co_return Failure(std::move(error));
}

Failure unhealthy(const SandboxInfo& info) {
  Error error{.kind = ErrorKind::Unhealthy, .code = "UNHEALTHY"};
  error.message = "sandbox " + info.id + " is " + info.status.state;
  if (!info.status.message.empty()) error.message += ": " + info.status.message;
  return Failure(std::move(error));
}

bool is_over(const std::string& state) { return state == state::kFailed || state == state::kTerminated; }

net::awaitable<osb::Result<Result<bool>>> wrapped(Task<bool> task) { co_return co_await std::move(task); }

// The wait for readiness asks the server by itself.
Task<bool> ping(SandboxPtr sandbox) {
  auto reply = co_await call_unexplained(std::move(sandbox), {.target = "/ping"});
  if (!reply) co_return Failure(std::move(reply.error()));
  co_return true;
}

// Asks until the answer is yes. After a no it looks whether there is still hope.
Task<void> until_ready(SandboxPtr sandbox, ConnectOptions options) {
  if (options.ready.skip) co_return Result<void>();
  const osb::Deadline deadline(options.ready.timeout);
  for (Readiness tried;;) {
    ++tried.attempts;
    const milliseconds left = deadline.left();
    if (left.count() == 0) co_return co_await too_late(sandbox, options.ready, tried);
    auto task = options.health_check ? options.health_check(Sandbox(sandbox)) : ping(sandbox);
    auto answer = co_await osb::with_timeout(wrapped(std::move(task)), left);
    if (answer && *answer && **answer) co_return Result<void>();
    if (!answer) co_return co_await too_late(sandbox, options.ready, tried);
    tried.last_error = *answer ? "the health check said no" : answer->error().to_string();
    if (!*answer && (answer->error().status == 401 || answer->error().status == 403)) {
      co_return Failure(std::move(answer->error()));
    }
    auto info = co_await SandboxManager(sandbox->client()).get(sandbox->id());
    if (info && is_over(info->status.state)) co_return unhealthy(*info);
    if (!info && info.error().not_found()) co_return Failure(std::move(info.error()));
    if (!co_await osb::sleep_for(std::min(options.ready.poll_interval, left))) {
      co_return cancelled("the wait was cancelled");
    }
  }
}

// From the answer to POST to a sandbox that answers.
Task<void> until_made(SandboxPtr sandbox, SandboxInfo info, ConnectOptions options) {
  if (is_over(info.status.state)) co_return unhealthy(info);
  if (options.ready.skip) co_return Result<void>();
  co_return co_await until_ready(std::move(sandbox), std::move(options));
}

net::awaitable<osb::Result<void>> kill_quietly(Client client, std::string id) {
  (void)co_await SandboxManager(std::move(client)).kill(std::move(id));
  co_return osb::Result<void>();
}

Task<Sandbox> make(Client client, CreateOptions options, HealthCheck health_check) {
  const osb::Stopwatch time;
  const ReadyOptions ready = options.ready;
  const auto wait = ready.skip ? std::chrono::seconds(0) : std::chrono::ceil<std::chrono::seconds>(ready.timeout);
  auto made = co_await SandboxManager(client).create(std::move(options), wait);
  if (!made) co_return Failure(std::move(made.error()));
  auto sandbox = std::make_shared<SandboxState>(client, made->id);
  ConnectOptions rest{.ready = ready, .health_check = std::move(health_check)};
  const auto spent = std::chrono::duration_cast<milliseconds>(time.elapsed());
  // The answer of a server that waited may have used up the time; one question is due all the same.
  rest.ready.timeout = std::max(ready.timeout - spent, milliseconds(1000));
  std::exception_ptr thrown;
  Result<void> up;
  try {
    up = co_await until_made(sandbox, std::move(*made), std::move(rest));
  } catch (...) {
    thrown = std::current_exception();
  }
  if (up && !thrown) co_return Sandbox(std::move(sandbox));
  // The caller gets an error, so the sandbox goes. Cancelling the coroutine does not cancel the removal.
  const bool throws = co_await net::this_coro::throw_if_cancelled();
  co_await net::this_coro::throw_if_cancelled(false);
  co_await net::co_spawn(client.executor(), osb::with_timeout(kill_quietly(client, sandbox->id()), kUndo),
                         net::bind_cancellation_slot(net::cancellation_slot(), net::use_awaitable));
  co_await net::this_coro::throw_if_cancelled(throws);
  if (thrown) std::rethrow_exception(thrown);
  co_return Failure(std::move(up.error()));
}

Task<Sandbox> connect_to(Client client, std::string id, ConnectOptions options, bool resume_first) {
  auto sandbox = std::make_shared<SandboxState>(client, id);
  if (resume_first) {
    auto resumed = co_await SandboxManager(client).resume(id);
    if (!resumed) co_return Failure(std::move(resumed.error()));
  }
  // An unknown id is an error at once, not a sandbox that is late.
  auto peer = co_await sandbox->execd();
  if (!peer && peer.error().kind == ErrorKind::Api) co_return Failure(std::move(peer.error()));
  auto up = co_await until_ready(sandbox, std::move(options));
  if (!up) co_return Failure(std::move(up.error()));
  co_return Sandbox(std::move(sandbox));
}

Task<void> resume_and_wait(SandboxPtr sandbox, ConnectOptions options) {
  auto resumed = co_await SandboxManager(sandbox->client()).resume(sandbox->id());
  if (!resumed) co_return resumed;
  sandbox->forget();
  co_return co_await until_ready(std::move(sandbox), std::move(options));
}

Task<bool> answers(SandboxPtr sandbox) {
  auto up = co_await ping(std::move(sandbox));
  if (!up && up.error().kind == ErrorKind::Cancelled) co_return Failure(std::move(up.error()));
  co_return up.has_value();
}

// --- metrics

Task<Metrics> read_metrics(SandboxPtr sandbox) {
  auto reply = co_await call_execd(std::move(sandbox), {.target = "/metrics"});
  if (!reply) co_return Failure(std::move(reply.error()));
  co_return decode_metrics(reply->body, reply->request_id);
}

Task<void> follow_metrics(SandboxPtr sandbox, MetricsSink sink) {
  auto stream = co_await open_execd(sandbox, {.target = "/metrics/watch"});
  if (!stream) co_return Failure(std::move(stream.error()));
  osb::LineSplitter splitter;
  for (;;) {
    auto piece = co_await stream->body->read();
    if (!piece) co_return co_await explained(sandbox, from_transport(piece.error()).error());
    if (piece->empty()) co_return Result<void>();
    std::vector<Result<Metrics>> all;
    splitter.feed(*piece, [&](std::string_view line) {
      if (const auto text = event_json(line); !text.empty()) all.push_back(decode_metrics(text, stream->request_id));
    });
    if (splitter.pending() > kLongestLine) {
      co_return invalid_response("a sample is longer than any may be", stream->request_id);
    }
    for (auto& one : all) {
      if (!one) co_return Failure(std::move(one.error()));
      auto more = co_await sink(*one);
      if (!more) co_return Failure(std::move(more.error()));
      if (!*more) co_return Result<void>();
    }
  }
}

}  // namespace

Task<Sandbox> Sandbox::create(Client client, CreateOptions options, HealthCheck health_check) {
  return make(std::move(client), std::move(options), std::move(health_check));
}

Task<Sandbox> Sandbox::connect(Client client, std::string id, ConnectOptions options) {
  if (id.empty()) return failed_task<Sandbox>(invalid_argument("sandbox id: must not be empty"));
  return connect_to(std::move(client), std::move(id), std::move(options), false);
}

Task<Sandbox> Sandbox::resume(Client client, std::string id, ConnectOptions options) {
  if (id.empty()) return failed_task<Sandbox>(invalid_argument("sandbox id: must not be empty"));
  return connect_to(std::move(client), std::move(id), std::move(options), true);
}

Sandbox Sandbox::attach(Client client, std::string id) {
  return Sandbox(std::make_shared<SandboxState>(std::move(client), std::move(id)));
}

const std::string& Sandbox::id() const { return state_->id(); }
const Client& Sandbox::client() const { return state_->client(); }
Task<void> Sandbox::resume(ConnectOptions options) const { return resume_and_wait(state_, std::move(options)); }
Task<SandboxInfo> Sandbox::patch_metadata(MetadataPatch patch) const {
  return manager().patch_metadata(id(), std::move(patch));
}
Task<Endpoint> Sandbox::endpoint(int port, EndpointOptions options) const {
  return manager().endpoint(id(), port, options);
}
Task<Snapshot> Sandbox::create_snapshot(std::string name) const {
  return manager().create_snapshot(id(), std::move(name));
}
Task<bool> Sandbox::is_healthy() const { return answers(state_); }
Task<void> Sandbox::wait_until_ready(ConnectOptions options) const { return until_ready(state_, std::move(options)); }
Files Sandbox::files_as(std::uint32_t uid, std::uint32_t gid) const {
  return Files(state_, "/v1/filesystem/" + std::to_string(uid) + '/' + std::to_string(gid));
}
Task<Metrics> Sandbox::metrics() const { return read_metrics(state_); }
Task<void> Sandbox::watch_metrics(MetricsSink sink) const { return follow_metrics(state_, std::move(sink)); }

}  // namespace opensandbox::async
