#include "server/service/removals.h"

#include "base/backoff.h"
#include "base/log.h"

namespace osb::server {
namespace {

// More at once only makes the backend's queue longer.
constexpr int kAtOnce = 64;
constexpr std::chrono::milliseconds kFirstRetry(200), kLastRetry(30'000);

}  // namespace

Removals::Removals(const ServiceContext& context, SandboxStates& states, const Creations& creations,
                   DeadlineQueue& deadlines, BackendPresence& presence, std::function<void(const std::string&)> on_gone)
    : context_(context),
      states_(states),
      creations_(creations),
      deadlines_(deadlines),
      presence_(presence),
      on_gone_(std::move(on_gone)),
      slots_(context.executor, kAtOnce, kNoLimit) {}

net::awaitable<Result<void>> Removals::remove(std::string id, Scope scope) {
  if (auto found = states_.get(id, scope); !found) co_return Failure(found.error());
  auto taken = co_await context_.store.begin_remove(id);
  if (!taken) {
    if (taken.error().code != Code::NotFound) co_return Failure(taken.error());
    co_return states_.not_found(id, scope);
  }
  states_.endings().note_deleted(**taken, context_.time.now());
  const std::shared_ptr<Removal> removal = start(id);
  if (!co_await removal->settled.wait()) co_return fail(Code::Cancelled, "the server is ending");
  if (!removal->error) co_return Result<void>();
  Error error = *removal->error;
  error.code = Code::Internal;
  error.reason = context_.reason("SANDBOX_DELETE_FAILED");
  co_return Failure(std::move(error));
}

std::shared_ptr<Removals::Removal> Removals::start(const std::string& id) {
  deadlines_.forget_ended(id);
  std::shared_ptr<Removal> removal = removals_[id];
  if (!removal) {
    removal = removals_[id] = std::make_shared<Removal>(context_.executor);
    // It may be over when this returns.
    context_.tasks.spawn("remove sandbox", run(id, removal));
  }
  states_.notify(id);
  return removal;
}

net::awaitable<void> Removals::run(std::string id, std::shared_ptr<Removal> removal) {
  Backoff pause(kFirstRetry, kLastRetry);
  for (;;) {
    Result<void> removed;
    {
      auto slot = slots_.enter();
      if (!co_await slot->wait_turn()) co_return;
      removed = co_await context_.lifecycle().remove(id);
    }
    if (const auto creation = creations_.find(id); creation && creation->handed) {
      // It may reach the backend after our remove. It ends soon: its sandbox was removed, or is there now.
      if (!co_await creation->over.wait()) co_return;
      continue;
    }
    if (removed) break;
    log_warn("sandbox not removed", {{"id", id}, {"error", removed.error().message}});
    if (!removal->settled.is_set()) {
      removal->error = removed.error();
      removal->settled.set();
    }
    co_await presence_.wait_reconciled(pause.next());
  }
  on_gone_(id);
  states_.forget(id);
  context_.store.forget(id);
  removals_.erase(id);
  removal->settled.set();
  log_info("sandbox removed", {{"id", id}});
}

}  // namespace osb::server
