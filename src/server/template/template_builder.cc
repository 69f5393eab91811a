#include "server/template/template_builder.h"

#include <algorithm>

#include "async/race.h"
#include "base/log.h"
#include "base/ports.h"
#include "server/template/template_probe.h"

namespace osb::server {

using namespace race;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr milliseconds kProbePause(250);
constexpr milliseconds kProbeLimit(10'000);
constexpr milliseconds kCapturePause(500);
constexpr std::chrono::minutes kCaptureLimit(2);
constexpr std::size_t kMostLog = 64 << 10;
// The sandbox outlives the time for its build, which is measured here.
constexpr seconds kGrace(600);
// In the metadata of the sandbox: the template that it builds.
constexpr const char* kTemplateKey = "template";

Failure gone() { return fail(Code::Conflict, "the sandbox that was building the template was removed"); }

// Why a sandbox that should run does not.
Result<void> check_running(const SandboxPtr& sandbox) {
  if (!sandbox) return gone();
  if (!sandbox->has_ended()) return {};
  const api::Status& status = sandbox->status;
  return fail(Code::Conflict, "the sandbox ended before the template was ready (" +
                                  (status.reason.empty() ? status.state : status.reason) + "): " + status.message);
}

}  // namespace

TemplateBuilder::TemplateBuilder(const ServiceContext& context, SandboxStates& states, Creates& creates,
                                 BackendPresence& presence)
    : context_(context),
      states_(states),
      creates_(creates),
      presence_(presence),
      snapshots_(*context.backend.snapshots()),
      client_(context.backend.connector()),
      publisher_(context.executor, snapshots_, context.options.publish) {}

net::awaitable<Result<std::string>> TemplateBuilder::build(TemplatePtr record, Event& cancel,
                                                           const Progress& progress) {
  const Failure cancelled = fail(Code::Cancelled, "the template was deleted");
  const auto target = parse_publish(record->spec->publish, context_.options.publish);
  if (!target) co_return Failure(target.error());
  const auto there = co_await snapshots_.exists(record->snapshot_id);
  if (!there) co_return Failure(there.error());
  if (!*there) {
    auto warm =
        co_await (with_timeout(warm_up(record, progress), context_.options.template_build_limit) || cancel.wait());
    if (warm.index() == 1) co_return cancelled;
    if (const auto& done = std::get<0>(warm); !done) {
      if (done.error().code != Code::Timeout) co_return Failure(done.error());
      co_return fail(Code::Timeout, "the template was not ready within " +
                                        std::to_string(context_.options.template_build_limit.count()) +
                                        " s ([templates] build_timeout_seconds)");
    }
    progress("taking the snapshot");
    if (auto captured = co_await capture(record); !captured) co_return Failure(captured.error());
  }
  if (cancel.is_set()) co_return cancelled;
  progress("publishing to " + record->spec->publish);
  auto published = co_await (publisher_.publish(*target, record->id, record->snapshot_id) || cancel.wait());
  if (published.index() == 1) co_return cancelled;
  co_return std::get<0>(std::move(published));
}

// ---- a sandbox that is warm

net::awaitable<Result<void>> TemplateBuilder::warm_up(TemplatePtr record, const Progress& progress) {
  auto sandbox = co_await make_sandbox(record);
  if (sandbox) sandbox = co_await until_running(*sandbox, progress);
  if (!sandbox) co_return Failure(sandbox.error());
  const std::string id = (*sandbox)->id;
  const api::TemplateReadiness readiness = record->spec->readiness.value_or(api::TemplateReadiness());
  if (!readiness.probe.empty()) {
    const auto probe = api::parse_template_probe(readiness.probe);
    if (!probe) co_return Failure(probe.error());
    if (auto ready = co_await until_ready(id, *probe, progress); !ready) co_return ready;
  }
  const seconds warmup = readiness.warmup_seconds.value_or(seconds(0));
  if (warmup.count() > 0) progress("warming up for " + std::to_string(warmup.count()) + " s");
  co_return co_await stay_running(id, warmup);
}

net::awaitable<Result<SandboxPtr>> TemplateBuilder::make_sandbox(TemplatePtr record) {
  if (SandboxPtr known = context_.store.find(record->sandbox_id)) co_return known;
  api::CreateSandbox wanted = api::build_spec(*record->spec);
  wanted.metadata = api::StringMap{{kTemplateKey, record->id}};
  wanted.timeout = context_.options.template_build_limit + kGrace;
  if (const auto& most = context_.options.max_timeout) wanted.timeout = std::min(*wanted.timeout, *most);
  const Principal who{record->owner, Role::Member};
  auto made = co_await creates_.create(std::move(wanted), who, {.id = record->sandbox_id});
  if (!made) co_return Failure(made.error());
  if (!made->record) co_return gone();
  co_return made->record;
}

net::awaitable<Result<SandboxPtr>> TemplateBuilder::until_running(SandboxPtr sandbox, const Progress& progress) {
  while (sandbox && sandbox->status.state == api::state::kPending) {
    progress("starting the sandbox: " + sandbox->status.message);
    SandboxPtr next = co_await states_.wait_change(sandbox, std::chrono::hours(1));
    if (next == sandbox && context_.closing) co_return fail(Code::Cancelled, "the server is ending");
    sandbox = std::move(next);
  }
  if (auto running = check_running(sandbox); !running) co_return Failure(running.error());
  co_return sandbox;
}

net::awaitable<Result<void>> TemplateBuilder::until_ready(std::string sandbox, api::TemplateProbe probe,
                                                          const Progress& progress) {
  for (std::string why = "not asked yet";;) {
    progress("waiting for the readiness probe: " + why);
    const SandboxPtr record = context_.store.find(sandbox);
    if (auto running = check_running(record); !running) co_return running;
    const runtime::Instance* instance = states_.instance(sandbox);
    if (record->status.state == api::state::kRunning && instance != nullptr && instance->ports) {
      const auto answer =
          co_await ask_probe(client_, instance->ports->route(kExecdPort), record->execd_token, probe, kProbeLimit);
      if (answer && answer->ready) co_return Result<void>();
      why = answer ? answer->why : answer.error().message;
    } else {
      why = "the sandbox is " + record->status.state;
    }
    if (!co_await sleep_for(kProbePause)) co_return fail(Code::Cancelled, "the server is ending");
  }
}

net::awaitable<Result<void>> TemplateBuilder::stay_running(std::string sandbox, std::chrono::nanoseconds time) {
  const auto until = context_.time.steady() + time;
  SandboxPtr record = context_.store.find(sandbox);
  for (;;) {
    if (auto running = check_running(record); !running) co_return running;
    const auto left = until - context_.time.steady();
    if (left.count() <= 0) co_return Result<void>();
    record = co_await states_.wait_change(record, left);
    if (context_.closing) co_return fail(Code::Cancelled, "the server is ending");
  }
}

// ---- the snapshot

net::awaitable<Result<void>> TemplateBuilder::capture(TemplatePtr record) {
  const auto deadline = context_.time.steady() + kCaptureLimit;
  for (;;) {
    const auto made = co_await snapshots_.create({record->sandbox_id, record->snapshot_id});
    if (made) co_return made;
    // Conflict: an earlier process asked for it, and it may still be on its way.
    const Code code = made.error().code;
    if (code != Code::Unavailable && code != Code::Conflict) co_return made;
    if (context_.time.steady() > deadline) co_return made;
    log_warn("template not captured", {{"template", record->id}, {"error", made.error().message}});
    if (!presence_.is_here() && !co_await presence_.wait()) co_return made;
    if (!co_await sleep_for(kCapturePause)) co_return made;
    const auto there = co_await snapshots_.exists(record->snapshot_id);
    if (there && *there) co_return Result<void>();
  }
}

net::awaitable<std::string> TemplateBuilder::log_of(TemplatePtr record) {
  runtime::Logs* const logs = context_.backend.logs();
  if (logs == nullptr || record->sandbox_id.empty()) co_return std::string();
  auto text = co_await logs->tail(record->sandbox_id, kMostLog);
  co_return text ? std::move(*text) : std::string();
}

}  // namespace osb::server
