// Renewal, expiry and removal.

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "api/lifecycle_error.h"
#include "async/timer.h"
#include "base/log.h"
#include "server/service/sandbox_service.h"

namespace osb::server {

using namespace net::experimental::awaitable_operators;

namespace {

constexpr std::chrono::milliseconds kFirstRetry(200), kLastRetry(30'000);
// A store that fails (a full disk) is asked again, not in a circle.
constexpr std::chrono::seconds kStoreRetry(1);
// Of a timer; deadlines may be thousands of years away.
constexpr std::chrono::hours kLongestSleep(24);

}  // namespace

Timestamp SandboxService::running() const {
  return started_ + std::chrono::floor<std::chrono::microseconds>(clock_.steady_now() - steady_start_);
}

Moment SandboxService::moment() const {
  const Timestamp wall = now();
  return {wall, wall - running()};
}

net::awaitable<Result<Timestamp>> SandboxService::renew(std::string id, Timestamp until) {
  if (auto found = get(id); !found) co_return Failure(found.error());
  const Moment at = moment();
  if (auto ok = api::check_renew(until, at.wall, capabilities_.name); !ok) co_return Failure(ok.error());
  if (options_.max_timeout && until - at.wall > *options_.max_timeout) {
    co_return api::invalid_parameter("/expiresAt", "at most " + std::to_string(options_.max_timeout->count()) +
                                                       " s from now are allowed ([server] "
                                                       "max_sandbox_timeout_seconds)");
  }
  auto renewed = co_await store_.renew(id, until, at);
  if (!renewed) {
    if (renewed.error().code == Code::NotFound) co_return not_found(id);
    Error error = renewed.error();
    if (error.code == Code::Conflict) error.reason = reason("INVALID_EXPIRATION");
    co_return Failure(std::move(error));
  }
  deadlines_moved_.notify_all();
  co_return *(*renewed)->expires_at;
}

net::awaitable<Result<SandboxPtr>> SandboxService::patch_metadata(std::string id, api::MetadataPatch patch) {
  auto found = get(id);
  if (!found) co_return Failure(found.error());
  if (auto ok = api::check_metadata_patch(patch); !ok) co_return Failure(ok.error());
  if (patch.empty()) co_return *found;
  auto patched = co_await store_.patch_metadata(id, std::move(patch));
  if (!patched && patched.error().code == Code::NotFound) co_return get(id);
  co_return patched;
}

void SandboxService::touch(const SandboxRecord& record) {
  if (!options_.renew_on_access || !record.access_renew || !record.expires_at) return;
  if (record.status.state != api::state::kRunning) return;
  const auto moment = clock_.steady_now();
  const auto [last, first] = renewed_.try_emplace(record.id, moment);
  if (!first && moment - last->second < options_.min_renew_interval) return;
  last->second = moment;
  tasks_.spawn("renew on access", run_access_renewal(record.id));
}

void SandboxService::touch_by_gateway(const std::string& id) {
  const SandboxPtr record = store_.find(id);
  if (!record || !options_.renew_on_access || !record->access_renew || !record->expires_at) return;
  if (record->status.state != api::state::kRunning) return;
  tasks_.spawn("renew on access", run_access_renewal(id));
}

net::awaitable<void> SandboxService::run_access_renewal(std::string id) {
  const auto extended = co_await store_.extend(id, moment());
  if (!extended) log_warn("not renewed on access", {{"id", id}, {"error", extended.error().message}});
}

// ---- removal

net::awaitable<Result<void>> SandboxService::remove(std::string id) {
  auto taken = co_await store_.begin_remove(id);
  if (!taken) {
    if (taken.error().code != Code::NotFound) co_return Failure(taken.error());
    co_return not_found(id);
  }
  gone_.note_deleted(id, now());
  const std::shared_ptr<Removal> removal = begin_removal(id);
  if (!co_await removal->settled.wait()) co_return fail(Code::Cancelled, "the server is ending");
  if (!removal->error) co_return Result<void>();
  Error error = *removal->error;
  error.code = Code::Internal;
  error.reason = reason("SANDBOX_DELETE_FAILED");
  co_return Failure(std::move(error));
}

std::shared_ptr<SandboxService::Removal> SandboxService::begin_removal(std::string id) {
  forget_ended(id);
  std::shared_ptr<Removal> removal = removals_[id];
  if (!removal) {
    removal = removals_[id] = std::make_shared<Removal>(executor_);
    // It may be over when this returns.
    tasks_.spawn("remove sandbox", run_removal(id, removal));
  }
  waiters_.notify(id);
  return removal;
}

net::awaitable<void> SandboxService::run_removal(std::string id, std::shared_ptr<Removal> removal) {
  auto pause = kFirstRetry;
  for (;;) {
    Result<void> removed;
    {
      auto slot = removal_slots_.enter();
      if (!co_await slot->wait_turn()) co_return;
      removed = co_await backend_.remove(id);
    }
    const auto creating = creating_.find(id);
    if (creating != creating_.end() && creating->second->handed) {
      // It may reach the backend after our remove. It ends soon: its sandbox was removed, or is there now.
      const std::shared_ptr<Creation> creation = creating->second;
      if (!co_await creation->over.wait()) co_return;
      continue;
    }
    if (removed) break;
    log_warn("sandbox not removed", {{"id", id}, {"error", removed.error().message}});
    if (!removal->settled.is_set()) {
      removal->error = removed.error();
      removal->settled.set();
    }
    co_await pause_before_retry(pause);
    pause = std::min(pause * 2, kLastRetry);
  }
  adopting_.erase(id);
  instances_.erase(id);
  renewed_.erase(id);
  events_.forget(id);
  store_.forget(id);
  removals_.erase(id);
  removal->settled.set();
  log_info("sandbox removed", {{"id", id}});
}

// ---- deadlines

Timestamp SandboxService::check_deadlines() {
  const Timestamp moment = running();
  for (const SandboxPtr& record : store_.due(moment)) {
    if (leaving_.insert(record->id).second) tasks_.spawn("expire sandbox", expire(record->id));
  }
  while (!ended_.empty() && ended_.begin()->first <= moment) {
    const std::string id = ended_.begin()->second;
    forget_ended(id);
    if (store_.find(id) && leaving_.insert(id).second) tasks_.spawn("retire sandbox", retire(id));
  }
  return moment;
}

net::awaitable<void> SandboxService::expire(std::string id) {
  auto taken = co_await store_.expire_if_due(id, running());
  if (!taken) {
    log_error("sandbox not expired", {{"id", id}, {"error", taken.error().message}});
    (void)co_await sleep_for(kStoreRetry);
  } else if (*taken) {
    log_info("sandbox expired", {{"id", id}});
    gone_.note_expired(id, now());
    begin_removal(id);
  }
  leaving_.erase(id);
  deadlines_moved_.notify_all();
}

net::awaitable<void> SandboxService::retire(std::string id) {
  const SandboxPtr record = store_.find(id);
  if (auto taken = co_await store_.begin_remove(id)) {
    gone_.note_retired(id, now(), record ? record->status.message : "");
    begin_removal(id);
  } else if (taken.error().code != Code::NotFound) {
    log_error("sandbox not retired", {{"id", id}, {"error", taken.error().message}});
    (void)co_await sleep_for(kStoreRetry);
    if (const auto left = store_.find(id)) note_ended(*left);
  }
  leaving_.erase(id);
}

net::awaitable<void> SandboxService::run_deadlines() {
  for (;;) {
    // Not another look at the clock: what became due in between nobody would have seen.
    const Timestamp moment = check_deadlines();
    std::optional<Timestamp> next = store_.next_deadline();
    // What was due is on its way out, and says when it has gone.
    if (next && *next <= moment) next.reset();
    if (!ended_.empty() && (!next || ended_.begin()->first < *next)) next = ended_.begin()->first;
    const auto longest = std::chrono::microseconds(kLongestSleep);
    const auto left = next ? std::clamp(*next - moment, std::chrono::microseconds(0), longest) : longest;
    const auto outcome = co_await (sleep_for(left) || deadlines_moved_.wait());
    if (outcome.index() == 1 && !std::get<1>(outcome)) co_return;
  }
}

}  // namespace osb::server
