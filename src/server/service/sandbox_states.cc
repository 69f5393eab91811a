// What the backend says becomes what the records say.

#include "api/lifecycle_error.h"
#include "base/log.h"
#include "server/service/sandbox_service.h"

namespace osb::server {

using runtime::Instance;
using runtime::InstanceState;

namespace {

// The stream of changes is a few milliseconds behind at most.
constexpr std::chrono::seconds kStreamDelay(1);
constexpr std::chrono::seconds kSettleWait(10);

}  // namespace

void SandboxService::set_status(const SandboxPtr& record, std::string_view state, std::string reason,
                                std::string message) {
  api::Status status{std::string(state), std::move(reason), std::move(message), record->status.last_transition_at};
  if (status == record->status) return;
  if (status.state != record->status.state) status.last_transition_at = now();
  const auto changed = store_.change_status(record->id, {}, std::move(status));
  if (!changed) return;  // on its way out
  events_.note(record->id, now(), (*changed)->status);
  note_ended(**changed);
  waiters_.notify(record->id);
}

void SandboxService::note_ended(const SandboxRecord& record) {
  if (!record.has_ended()) return;
  const Timestamp since = record.status.last_transition_at.value_or(record.created_at) - moment().set_by;
  forget_ended(record.id);
  ended_.emplace(since + options_.keep_ended, record.id);
  ended_until_.emplace(record.id, since + options_.keep_ended);
  deadlines_moved_.notify_all();
}

void SandboxService::forget_ended(const std::string& id) {
  const auto until = ended_until_.find(id);
  if (until == ended_until_.end()) return;
  ended_.erase({until->second, id});
  ended_until_.erase(until);
}

void SandboxService::apply(const Instance& instance) {
  const SandboxPtr record = store_.find(instance.id);
  if (!record) return;
  Instance& known = instances_[instance.id];
  std::string token = instance.execd_token.empty() ? known.execd_token : instance.execd_token;
  known = instance;
  known.execd_token = std::move(token);
  if (record->has_ended()) return;  // nothing lives twice
  const std::string& state = record->status.state;
  const bool freezing = freezing_.contains(instance.id);
  switch (instance.state) {
    case InstanceState::Creating:
      if (state != api::state::kPending) break;
      set_status(record, state, "CONTAINER_STARTING", instance.message.empty() ? "starting" : instance.message);
      break;
    case InstanceState::Running:
      // What was said before a pause took effect.
      if (freezing && state == api::state::kPausing) break;
      set_status(record, api::state::kRunning, "CONTAINER_RUNNING", "The sandbox is running.");
      break;
    case InstanceState::Paused:
      if (freezing && state == api::state::kResuming) break;
      set_status(record, api::state::kPaused, "CONTAINER_PAUSED", "The sandbox is paused.");
      break;
    case InstanceState::Ended: {
      if (!instance.exit_code && state == api::state::kPending && instance.reason != "HOST_RESTARTED") {
        // Never began. Our own create says so itself; this is one that an earlier process asked for.
        if (creating_.contains(instance.id)) break;
        set_status(record, api::state::kFailed,
                   instance.reason.empty() ? reason("SANDBOX_START_FAILED") : instance.reason, instance.message);
        break;
      }
      const bool well = instance.exit_code.value_or(0) == 0 || instance.reason == "HOST_RESTARTED";
      set_status(record, well ? api::state::kTerminated : api::state::kFailed, instance.reason, instance.message);
      break;
    }
    case InstanceState::Removing:
      set_status(record, api::state::kStopping, "CONTAINER_STOPPING", "The sandbox is being removed.");
      break;
  }
}

void SandboxService::on_change(Instance instance) {
  apply(instance);
  consider_adoption(instance);
}

void SandboxService::on_removed(std::string id) {
  const SandboxPtr record = store_.find(id);
  // A create that failed says why itself.
  if (!record || record->has_ended() || creating_.contains(id)) return;
  log_warn("sandbox is gone", {{"id", id}});
  set_status(record, api::state::kTerminated, "SANDBOX_REMOVED", "The sandbox was removed behind the server's back.");
}

void SandboxService::on_all(std::vector<Instance> instances) {
  presence_.note_found();
  if (!std::exchange(recovered_, true)) recover();
  std::unordered_set<std::string> present;
  std::size_t foreign = 0;
  for (const Instance& instance : instances) {
    present.insert(instance.id);
    apply(instance);
    if (!consider_adoption(instance) && !store_.find(instance.id)) ++foreign;
  }
  for (const SandboxPtr& record : store_.all()) {
    if (present.contains(record->id) || record->has_ended() || creating_.contains(record->id)) continue;
    if (record->status.state == api::state::kPending) {
      // Accepted, and lost on its way to the backend.
      prepare_create(record);
      tasks_.spawn("create sandbox", run_create(record->id, admission_.enter()));
    } else {
      log_warn("sandbox is gone", {{"id", record->id}, {"state", record->status.state}});
      set_status(record, api::state::kTerminated, "SANDBOX_LOST", "The backend no longer has the sandbox.");
    }
  }
  // Made by others: whoever made them sees to their end.
  log_info("backend is connected", {{"sandboxes", instances.size()}, {"not_ours", foreign}});
  reconnected_.notify_all();
}

void SandboxService::on_lost(const Error& why) {
  if (presence_.note_lost(why)) log_warn("backend does not answer", {{"error", why.message}});
}

void SandboxService::recover() {
  for (const std::string& id : store_.removals()) begin_removal(id);
  for (const std::string& id : std::exchange(unfinished_snapshots_, {})) {
    if (const SnapshotPtr snapshot = store_.find_snapshot(id)) {
      tasks_.spawn("recover snapshot", recover_snapshot(snapshot));
    }
  }
}

// ---- pause and resume

net::awaitable<Result<void>> SandboxService::pause(std::string id) { return set_frozen(std::move(id), true); }
net::awaitable<Result<void>> SandboxService::resume(std::string id) { return set_frozen(std::move(id), false); }

net::awaitable<Result<void>> SandboxService::set_frozen(std::string id, bool frozen) {
  auto found = get(id);
  if (!found) co_return Failure(found.error());
  SandboxPtr record = *found;
  const std::string& state = record->status.state;
  if ((state == api::state::kPausing || state == api::state::kResuming) && !freezing_.contains(id)) {
    // Answered, and then the server was restarted or lost the backend before it heard of it. The backend knows.
    record = co_await wait_change(record, kSettleWait);
    if (!record) co_return not_found(id);
  }
  const std::string_view from = frozen ? api::state::kRunning : api::state::kPaused;
  if (record->status.state != from) {
    co_return api::refuse(Code::Conflict, reason(frozen ? "SANDBOX_NOT_RUNNING" : "SANDBOX_NOT_PAUSED"),
                          "sandbox " + id + " is " + record->status.state);
  }
  const struct Freezing {
    std::unordered_set<std::string>& all;
    const std::string& id;
    Freezing(std::unordered_set<std::string>& a, const std::string& i) : all(a), id(i) { all.insert(id); }
    ~Freezing() { all.erase(id); }
  } freezing(freezing_, id);
  const api::Status before = record->status;
  set_status(record, frozen ? api::state::kPausing : api::state::kResuming,
             frozen ? "CONTAINER_PAUSING" : "CONTAINER_RESUMING", "");
  auto done = frozen ? co_await backend_.pause(id) : co_await backend_.resume(id);
  record = store_.find(id);
  if (!record) co_return not_found(id);
  if (!done) {
    if (record->status.state == (frozen ? api::state::kPausing : api::state::kResuming)) {
      set_status(record, before.state, before.reason, before.message);
    }
    Error error = done.error();
    error.code = Code::Internal;  // the contract's 500, whatever the backend's trouble
    error.reason = reason(frozen ? "SANDBOX_PAUSE_FAILED" : "SANDBOX_RESUME_FAILED");
    co_return Failure(std::move(error));
  }
  // The stream of changes is what tells the state, in order; the client sees it when it has its answer.
  const std::string_view under_way = frozen ? api::state::kPausing : api::state::kResuming;
  if (record->status.state == under_way) (void)co_await wait_change(record, kStreamDelay);
  co_return Result<void>();
}

}  // namespace osb::server
