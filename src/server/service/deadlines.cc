#include "server/service/deadlines.h"

#include <algorithm>

#include "async/race.h"
#include "base/log.h"

namespace osb::server {

using namespace race;

namespace {

// A store that fails (a full disk) is asked again, not in a circle.
constexpr std::chrono::seconds kStoreRetry(1);
// Of a timer; deadlines may be thousands of years away.
constexpr std::chrono::hours kLongestSleep(24);

}  // namespace

net::awaitable<Result<Timestamp>> Deadlines::renew(std::string id, Scope scope, Timestamp until) {
  const auto found = states_.get(id, scope);
  if (!found) co_return Failure(found.error());
  const Moment at = context_.time.moment();
  if (auto ok = api::check_renew(until, at.wall, context_.backend.capabilities().backend); !ok) {
    co_return Failure(ok.error());
  }
  if (const auto& most = context_.options.max_timeout; most && until - at.wall > *most) {
    co_return api::invalid_parameter(
        "/expiresAt",
        "at most " + std::to_string(most->count()) + " s from now are allowed ([server] max_sandbox_timeout_seconds)");
  }
  // First where the backend keeps the deadline: a sandbox that lives too long is ended by the record.
  if ((*found)->expires_at) {
    auto told = co_await context_.lifecycle().set_deadline(id, until);
    if (!told && told.error().code != Code::NotFound) co_return Failure(told.error());
  }
  auto renewed = co_await context_.store.renew(id, until, at);
  if (!renewed) {
    if (renewed.error().code == Code::NotFound) co_return states_.not_found(id, scope);
    Error error = renewed.error();
    if (error.code == Code::Conflict) error.reason = context_.reason("INVALID_EXPIRATION");
    co_return Failure(std::move(error));
  }
  queue_.move();
  co_return *(*renewed)->expires_at;
}

Timestamp Deadlines::check() {
  const Timestamp moment = context_.time.running();
  for (const SandboxPtr& record : context_.store.due(moment)) {
    if (leaving_.insert(record->id).second) context_.tasks.spawn("expire sandbox", expire(record->id));
  }
  for (const std::string& id : queue_.take_ended(moment)) {
    if (context_.store.find(id) && leaving_.insert(id).second) context_.tasks.spawn("retire sandbox", retire(id));
  }
  return moment;
}

net::awaitable<void> Deadlines::expire(std::string id) {
  auto taken = co_await context_.store.expire_if_due(id, context_.time.running());
  if (!taken) {
    log_error("sandbox not expired", {{"id", id}, {"error", taken.error().message}});
    (void)co_await sleep_for(kStoreRetry);
  } else if (*taken) {
    log_info("sandbox expired", {{"id", id}});
    states_.endings().note_expired(***taken, context_.time.now());
    removals_.begin(id);
  }
  leaving_.erase(id);
  queue_.move();
}

net::awaitable<void> Deadlines::retire(std::string id) {
  if (auto taken = co_await context_.store.begin_remove(id)) {
    states_.endings().note_retired(**taken, context_.time.now());
    removals_.begin(id);
  } else if (taken.error().code != Code::NotFound) {
    log_error("sandbox not retired", {{"id", id}, {"error", taken.error().message}});
    (void)co_await sleep_for(kStoreRetry);
    if (const auto left = context_.store.find(id)) states_.note_ended(*left);
  }
  leaving_.erase(id);
}

net::awaitable<void> Deadlines::run() {
  for (;;) {
    // One look at the clock: a deadline between two looks would be missed.
    const Timestamp moment = check();
    const auto next = queue_.next(moment);
    const auto longest = std::chrono::microseconds(kLongestSleep);
    const auto left = next ? std::clamp(*next - moment, std::chrono::microseconds(0), longest) : longest;
    const auto outcome = co_await (sleep_for(left) || queue_.wait_moved());
    if (outcome.index() == 1 && !std::get<1>(outcome)) co_return;
  }
}

}  // namespace osb::server
