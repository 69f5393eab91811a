#include "server/service/sandbox_states.h"

#include "async/race.h"
#include "base/log.h"

namespace osb::server {

using namespace race;
using runtime::Instance;
using runtime::InstanceState;

SandboxStates::SandboxStates(const ServiceContext& context, const Creations& creations, DeadlineQueue& deadlines)
    : context_(context), creations_(creations), deadlines_(deadlines), waiters_(context.executor) {}

Result<SandboxPtr> SandboxStates::get(std::string_view id, const Scope& scope) const {
  if (auto record = context_.store.find(id, scope)) return record;
  return not_found(id, scope);
}

Failure SandboxStates::not_found(std::string_view id, const Scope& scope) const {
  const std::string how = endings_.find(id, scope);
  return api::refuse(Code::NotFound, context_.reason("SANDBOX_NOT_FOUND"),
                     "sandbox " + std::string(id) + ' ' + (how.empty() ? "does not exist" : how));
}

const Instance* SandboxStates::instance(std::string_view id) const {
  const auto found = instances_.find(std::string(id));
  return found == instances_.end() ? nullptr : &found->second;
}

// ---- changes

Instance& SandboxStates::known(const SandboxRecord& record) {
  Instance& known = instances_[record.id];
  known.id = record.id;
  known.execd_token = record.execd_token;
  known.egress_token = record.egress_token;
  return known;
}

void SandboxStates::restore(const SandboxRecord& record) {
  note_ended(record);
  known(record);
}

void SandboxStates::add(const SandboxRecord& record, Timestamp at) {
  known(record);
  events_.note(record.id, at, record.status);
  if (record.expires_at) deadlines_.move();
}

void SandboxStates::forget(const std::string& id) {
  instances_.erase(id);
  events_.forget(id);
}

void SandboxStates::set(const SandboxPtr& record, std::string_view state, std::string reason, std::string message) {
  api::Status status{std::string(state), std::move(reason), std::move(message), record->status.last_transition_at};
  if (status == record->status) return;
  const Timestamp now = context_.time.now();
  if (status.state != record->status.state) status.last_transition_at = now;
  const auto changed = context_.store.change_status(record->id, {}, std::move(status));
  if (!changed) return;  // on its way out
  events_.note(record->id, now, (*changed)->status);
  note_ended(**changed);
  if (on_change_) on_change_(**changed);
  notify(record->id);
}

void SandboxStates::note_ended(const SandboxRecord& record) {
  if (!record.has_ended()) return;
  const Timestamp since = record.status.last_transition_at.value_or(record.created_at) - context_.time.moment().set_by;
  deadlines_.add_ended(record.id, since + context_.options.keep_ended);
}

void SandboxStates::note_gone(const std::string& id) {
  const SandboxPtr record = context_.store.find(id);
  // A create that failed says why itself.
  if (!record || record->has_ended() || creations_.contains(id)) return;
  log_warn("sandbox is gone", {{"id", id}});
  set(record, api::state::kTerminated, "SANDBOX_REMOVED", "The sandbox was removed behind the server's back.");
}

void SandboxStates::apply(const Instance& instance) {
  const SandboxPtr record = context_.store.find(instance.id);
  if (!record) return;
  Instance& known = instances_[instance.id];
  std::string token = instance.execd_token.empty() ? known.execd_token : instance.execd_token;
  known = instance;
  known.execd_token = std::move(token);
  known.egress_token = record->egress_token;
  if (record->has_ended()) return;  // nothing lives twice
  if (instance.expires_at && record->expires_at && *instance.expires_at != *record->expires_at) {
    context_.tasks.spawn("follow a deadline", follow_deadline(record->id, *instance.expires_at));
  }
  const std::string& state = record->status.state;
  const bool in_transition = is_in_transition(instance.id);
  switch (instance.state) {
    case InstanceState::Creating:
      if (state != api::state::kPending) break;
      set(record, state, "CONTAINER_STARTING", instance.message.empty() ? "starting" : instance.message);
      break;
    case InstanceState::Running:
      // Said before a pause took effect.
      if (in_transition && state == api::state::kPausing) break;
      set(record, api::state::kRunning, "CONTAINER_RUNNING",
          instance.message.empty() ? "The sandbox is running." : instance.message);
      break;
    case InstanceState::Pausing:
      set(record, api::state::kPausing, "CONTAINER_PAUSING", instance.message);
      break;
    case InstanceState::Paused:
      if (in_transition && state == api::state::kResuming) break;
      set(record, api::state::kPaused, "CONTAINER_PAUSED",
          instance.message.empty() ? "The sandbox is paused." : instance.message);
      break;
    case InstanceState::Resuming:
      set(record, api::state::kResuming, "CONTAINER_RESUMING", instance.message);
      break;
    case InstanceState::Ended:
      apply_end(record, instance);
      break;
    case InstanceState::Removing:
      set(record, api::state::kStopping, "CONTAINER_STOPPING", "The sandbox is being removed.");
      break;
  }
}

// Another server has moved the deadline that the backend keeps. One that has passed is left to the backend.
net::awaitable<void> SandboxStates::follow_deadline(std::string id, Timestamp until) {
  const Moment at = context_.time.moment();
  if (until <= at.wall) co_return;
  const auto renewed = co_await context_.store.renew(id, until, at);
  if (renewed) deadlines_.move();
}

void SandboxStates::apply_end(const SandboxPtr& record, const Instance& instance) {
  const bool restarted = instance.reason == "HOST_RESTARTED";
  if (!instance.exit_code && record->status.state == api::state::kPending && !restarted) {
    // Never began. Our own create says so itself; this one was asked for by an earlier process.
    if (creations_.contains(instance.id)) return;
    set(record, api::state::kFailed,
        instance.reason.empty() ? context_.reason("SANDBOX_START_FAILED") : instance.reason, instance.message);
    return;
  }
  const bool broken = !instance.exit_code && instance.reason.ends_with("_FAILED");
  const bool well = (instance.exit_code.value_or(0) == 0 && !broken) || restarted;
  set(record, well ? api::state::kTerminated : api::state::kFailed, instance.reason, instance.message);
}

// ---- waiting

net::awaitable<SandboxPtr> SandboxStates::wait_change(SandboxPtr seen, std::chrono::nanoseconds limit) {
  const auto deadline = context_.time.steady() + limit;
  // Looks at the moment it runs, for what happens before || has begun to wait.
  const auto wait_once = [&]() -> net::awaitable<bool> {
    const SandboxPtr now = context_.store.find(seen->id);
    if (!now || now->status != seen->status || context_.closing) co_return true;
    co_return co_await waiters_.wait(seen->id);
  };
  for (bool expired = limit <= limit.zero();;) {
    SandboxPtr record = context_.store.find(seen->id);
    if (!record || record->status != seen->status) co_return record;
    if (expired || context_.closing) co_return seen;
    const auto outcome = co_await (wait_once() || sleep_for(deadline - context_.time.steady()));
    const bool cancelled = !std::visit([](bool went_on) { return went_on; }, outcome);
    if (cancelled) co_return seen;
    expired = outcome.index() == 1;
  }
}

net::awaitable<SandboxPtr> SandboxStates::wait_settled(SandboxPtr record, std::chrono::nanoseconds limit) {
  const auto deadline = context_.time.steady() + limit;
  while (record && record->status.state == api::state::kPending) {
    const auto left = deadline - context_.time.steady();
    if (context_.closing || left <= left.zero()) break;
    const SandboxPtr next = co_await wait_change(record, left);
    if (next == record) break;
    record = next;
  }
  co_return record;
}

net::awaitable<bool> SandboxStates::wait_removed(std::string id) {
  while (context_.store.find(id)) {
    if (!co_await waiters_.wait(id)) co_return false;
  }
  co_return true;
}

}  // namespace osb::server
