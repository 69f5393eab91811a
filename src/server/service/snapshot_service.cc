#include "server/service/snapshot_service.h"

#include <utility>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "api/lifecycle_snapshot.h"
#include "async/race.h"
#include "base/id.h"
#include "base/log.h"

namespace osb::server {

using namespace race;

namespace {

constexpr int kAtOnce = 2;

std::string restore_config(const std::string& id) { return boost::json::serialize(boost::json::object{{"image", id}}); }

Failure not_implemented() {
  return api::refuse(Code::Unsupported, api::reason::kSnapshotNotImplemented, "this backend has no snapshots");
}

}  // namespace

SnapshotService::SnapshotService(const ServiceContext& context, const SandboxStates& states)
    : context_(context),
      states_(states),
      backend_(context.backend.snapshots()),
      waiters_(context.executor),
      slots_(context.executor, kAtOnce, kNoLimit) {}

void SnapshotService::start() {
  for (const SnapshotPtr& snapshot : context_.store.all_snapshots()) {
    const std::string& state = snapshot->status.state;
    if (state == api::snapshot_state::kCreating || state == api::snapshot_state::kDeleting) {
      unfinished_.push_back(snapshot->id);
    }
  }
}

void SnapshotService::recover() {
  for (const std::string& id : std::exchange(unfinished_, {})) {
    const SnapshotPtr snapshot = context_.store.find_snapshot(id);
    if (snapshot && backend_ != nullptr) context_.tasks.spawn("recover snapshot", recover(snapshot));
  }
}

Result<SnapshotPtr> SnapshotService::get(std::string_view id, const Scope& scope) const {
  if (auto record = context_.store.find_snapshot(id, scope)) return record;
  return api::refuse(Code::NotFound, api::reason::kSnapshotNotFound, "snapshot " + std::string(id) + " does not exist");
}

// ---- create

net::awaitable<Result<SnapshotPtr>> SnapshotService::create(std::string sandbox_id, std::string name,
                                                            const Principal& who) {
  const auto sandbox = states_.get(sandbox_id, who.scope());
  if (!sandbox) co_return Failure(sandbox.error());
  const std::string& state = (*sandbox)->status.state;
  if (state != api::state::kRunning && state != api::state::kPaused) {
    co_return api::refuse(Code::Conflict, api::reason::kSnapshotInvalidSourceState,
                          "sandbox " + sandbox_id + " is " + state + "; it must be Running or Paused");
  }
  if (backend_ == nullptr) co_return not_implemented();
  SnapshotRecord record;
  record.id = new_uuid();
  record.owner = {(*sandbox)->owner.tenant, who.owner.subject};
  record.sandbox_id = sandbox_id;
  record.name = std::move(name);
  record.created_at = context_.time.now();
  record.restore_config = "{}";
  record.status = {std::string(api::snapshot_state::kCreating), "snapshot_accepted", "Snapshot creation accepted.",
                   record.created_at};
  const auto accepted = std::make_shared<const SnapshotRecord>(record);
  making_.insert(accepted->id);
  if (auto stored = co_await context_.store.create_snapshot(std::move(record)); !stored) {
    making_.erase(accepted->id);
    co_return Failure(stored.error());
  }
  context_.tasks.spawn("create snapshot", run(accepted));
  co_return accepted;
}

net::awaitable<void> SnapshotService::run(SnapshotPtr accepted) {
  const std::string& id = accepted->id;
  const struct Over {
    std::set<std::string>& making;
    const std::string& id;
    ~Over() { making.erase(id); }
  } over{making_, id};
  const auto slot = slots_.enter();
  if (!co_await slot->wait_turn()) co_return;
  const auto made = co_await backend_->create({accepted->sandbox_id, id, accepted->name, true});
  if (!made && context_.closing) co_return;  // the next process asks the backend
  if (!made) {
    log_warn("snapshot not created", {{"id", id}, {"sandbox", accepted->sandbox_id}, {"error", made.error().message}});
    (void)co_await end_create(id, false, "snapshot_runtime_failed", made.error().message);
    co_return;
  }
  const auto changed = co_await end_create(id, true, "snapshot_runtime_ready", "The snapshot is ready.");
  if (!changed) (void)co_await backend_->remove(id);
}

net::awaitable<Result<SnapshotPtr>> SnapshotService::end_create(std::string id, bool ready, std::string reason,
                                                                std::string message) {
  api::Status status{std::string(ready ? api::snapshot_state::kReady : api::snapshot_state::kFailed), std::move(reason),
                     std::move(message), context_.time.now()};
  auto changed = co_await context_.store.change_snapshot(id, {std::string(api::snapshot_state::kCreating)},
                                                         std::move(status), restore_config(id));
  waiters_.notify(id);
  co_return changed;
}

net::awaitable<SnapshotPtr> SnapshotService::wait(SnapshotPtr snapshot, std::chrono::nanoseconds limit) {
  const auto deadline = context_.time.steady() + limit;
  const std::string id = snapshot->id;
  const auto is_being_made = [](const SnapshotPtr& record) {
    return record && record->status.state == api::snapshot_state::kCreating;
  };
  // Checks once more: || starts its sides on the loop's next turn, and a change before that would wake no waiter.
  const auto wait_once = [&]() -> net::awaitable<bool> {
    if (!is_being_made(context_.store.find_snapshot(id)) || context_.closing) co_return true;
    co_return co_await waiters_.wait(id);
  };
  for (bool expired = limit <= limit.zero(); is_being_made(snapshot) && !expired && !context_.closing;) {
    const auto outcome = co_await (wait_once() || sleep_for(deadline - context_.time.steady()));
    const bool cancelled = !std::visit([](bool went_on) { return went_on; }, outcome);
    if (cancelled) break;
    expired = outcome.index() == 1;
    snapshot = context_.store.find_snapshot(id);
  }
  co_return snapshot;
}

// ---- removal and export

net::awaitable<Result<void>> SnapshotService::remove(std::string id, Scope scope) {
  const auto found = get(id, scope);
  if (!found) co_return Failure(found.error());
  if (backend_ == nullptr) co_return not_implemented();
  api::Status deleting{std::string(api::snapshot_state::kDeleting), "snapshot_delete_requested",
                       "The snapshot is being deleted.", context_.time.now()};
  const api::Status before = (*found)->status;
  std::vector<std::string> from = {std::string(api::snapshot_state::kDeleting)};
  if (before.state != api::snapshot_state::kCreating) from.push_back(before.state);
  auto changed = co_await context_.store.change_snapshot(id, from, std::move(deleting), std::nullopt);
  if (!changed) {
    // Another delete was faster.
    if (changed.error().code == Code::NotFound) co_return Result<void>();
    co_return Failure(changed.error());
  }
  auto removed = co_await finish_removal(id);
  if (!removed && removed.error().code == Code::Conflict && before.state != api::snapshot_state::kDeleting) {
    // Refused: it stays what it was, also for the next start, which would carry on with the removal.
    const auto kept = co_await context_.store.change_snapshot(id, {std::string(api::snapshot_state::kDeleting)}, before,
                                                              std::nullopt);
    if (!kept && kept.error().code != Code::Conflict && kept.error().code != Code::NotFound) {
      co_return Failure(kept.error());
    }
  }
  co_return removed;
}

net::awaitable<Result<void>> SnapshotService::finish_removal(std::string id) {
  auto removed = co_await backend_->remove(id);
  if (!removed) {
    Error error = removed.error();
    if (error.code == Code::Conflict) error.reason = api::reason::kSnapshotDeleteConflict;
    co_return Failure(std::move(error));
  }
  co_return co_await context_.store.erase_snapshot(id);
}

net::awaitable<Result<std::shared_ptr<http::BodySource>>> SnapshotService::export_archive(std::string id, Scope scope) {
  const auto found = get(id, scope);
  if (!found) co_return Failure(found.error());
  if ((*found)->status.state != api::snapshot_state::kReady) {
    co_return api::refuse(Code::Conflict, api::reason::kSnapshotNotReady,
                          "snapshot " + id + " is " + (*found)->status.state);
  }
  if (backend_ == nullptr) co_return not_implemented();
  auto archive = co_await backend_->export_archive(id);
  if (archive) co_return archive;
  Error error = archive.error();
  error.reason =
      error.code == Code::Unsupported ? api::reason::kSnapshotNotImplemented : context_.reason("SANDBOX_QUERY_FAILED");
  if (error.code != Code::Unsupported) error.code = Code::Internal;
  co_return Failure(std::move(error));
}

// ---- a catalogue in the backend

void SnapshotService::note_all(std::vector<runtime::SnapshotInfo> all) {
  std::set<std::string> known;
  for (runtime::SnapshotInfo& info : all) {
    known.insert(info.id);
    note(std::move(info));
  }
  for (const SnapshotPtr& record : context_.store.all_snapshots()) {
    if (!known.contains(record->id)) note_removed(record->id);
  }
}

void SnapshotService::note(runtime::SnapshotInfo info) {
  std::string id = info.id;
  follow({std::move(id), std::move(info)});
}

void SnapshotService::note_removed(std::string id) { follow({std::move(id), std::nullopt}); }

void SnapshotService::follow(News news) {
  if (making_.contains(news.id)) return;
  news_.push_back(std::move(news));
  if (!std::exchange(following_, true)) context_.tasks.spawn("follow snapshots", follow_all());
}

net::awaitable<void> SnapshotService::follow_all() {
  while (!news_.empty()) {
    News news = std::move(news_.front());
    news_.pop_front();
    const std::string id = news.id;
    const auto done = co_await follow_one(std::move(news));
    if (!done) log_error("news of a snapshot are lost", {{"id", id}, {"error", done.error().message}});
    waiters_.notify(id);
  }
  following_ = false;
}

net::awaitable<Result<void>> SnapshotService::follow_one(News news) {
  const SnapshotPtr known = context_.store.find_snapshot(news.id);
  if (!news.info) {
    co_return known ? co_await context_.store.erase_snapshot(news.id) : Result<void>();
  }
  const runtime::SnapshotInfo& info = *news.info;
  using State = runtime::SnapshotInfo::State;
  const bool ready = info.state == State::Ready;
  const std::string reason = ready ? "snapshot_runtime_ready" : info.reason;
  const std::string message = ready ? "The snapshot is ready." : info.message;
  if (!known) {
    SnapshotRecord record;
    record.id = info.id;
    record.sandbox_id = info.sandbox_id;
    record.name = info.name;
    record.created_at = info.created_at;
    record.restore_config = ready ? restore_config(info.id) : "{}";
    record.status = {std::string(api::snapshot_state::kCreating), "snapshot_runtime_submitted",
                     "The snapshot is being made.", info.created_at};
    if (info.state != State::Creating) {
      record.status = {std::string(ready ? api::snapshot_state::kReady : api::snapshot_state::kFailed), reason, message,
                       context_.time.now()};
    }
    co_return co_await context_.store.create_snapshot(std::move(record));
  }
  if (known->status.state != api::snapshot_state::kCreating || info.state == State::Creating) co_return Result<void>();
  const auto changed = co_await end_create(news.id, ready, reason, message);
  // Another change was faster.
  if (!changed && changed.error().code != Code::Conflict && changed.error().code != Code::NotFound) {
    co_return Failure(changed.error());
  }
  co_return Result<void>();
}

// ---- after a restart

net::awaitable<void> SnapshotService::recover(SnapshotPtr snapshot) {
  const std::string id = snapshot->id;
  if (snapshot->status.state == api::snapshot_state::kDeleting) {
    (void)co_await finish_removal(id);
    co_return;
  }
  if (snapshot->status.state != api::snapshot_state::kCreating) co_return;
  const auto there = co_await backend_->exists(id);
  if (!there) {
    (void)co_await end_create(id, false, "snapshot_recovery_inspect_failed", there.error().message);
  } else if (*there) {
    (void)co_await end_create(id, true, "snapshot_recovery_ready", "The snapshot is ready.");
  } else {
    (void)co_await end_create(id, false, "snapshot_recovery_missing_snapshot",
                              "The server ended before the snapshot was made.");
  }
}

}  // namespace osb::server
