#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "api/lifecycle_error.h"
#include "base/id.h"
#include "base/log.h"
#include "server/service/sandbox_service.h"

namespace osb::server {

using namespace net::experimental::awaitable_operators;

namespace {

std::string restore_config(const std::string& id) { return boost::json::serialize(boost::json::object{{"image", id}}); }

}  // namespace

Result<SnapshotPtr> SandboxService::get_snapshot(std::string_view id) const {
  if (auto record = store_.find_snapshot(id)) return record;
  return api::refuse(Code::NotFound, api::reason::kSnapshotNotFound, "snapshot " + std::string(id) + " does not exist");
}

net::awaitable<Result<SnapshotPtr>> SandboxService::create_snapshot(std::string sandbox_id, std::string name) {
  const auto sandbox = get(sandbox_id);
  if (!sandbox) co_return Failure(sandbox.error());
  if ((*sandbox)->status.state != api::state::kRunning) {
    co_return api::refuse(Code::Conflict, api::reason::kSnapshotInvalidSourceState,
                          "sandbox " + sandbox_id + " is " + (*sandbox)->status.state + "; it must be Running");
  }
  if (!capabilities_.snapshots) {
    co_return api::refuse(Code::Unsupported, api::reason::kSnapshotNotImplemented, "this backend has no snapshots");
  }
  SnapshotRecord record;
  record.id = new_uuid();
  record.sandbox_id = sandbox_id;
  record.name = std::move(name);
  record.created_at = now();
  record.restore_config = "{}";
  record.status = {std::string(api::snapshot_state::kCreating), "snapshot_accepted", "Snapshot creation accepted.",
                   record.created_at};
  const auto accepted = std::make_shared<const SnapshotRecord>(record);
  if (auto stored = co_await store_.create_snapshot(std::move(record)); !stored) co_return Failure(stored.error());
  tasks_.spawn("create snapshot", run_snapshot(accepted->id, sandbox_id));
  co_return accepted;
}

net::awaitable<void> SandboxService::run_snapshot(std::string id, std::string sandbox_id) {
  const auto slot = snapshot_slots_.enter();
  if (!co_await slot->wait_turn()) co_return;
  const auto made = co_await backend_.create_snapshot(sandbox_id, id);
  api::Status status;
  if (made) {
    status = {std::string(api::snapshot_state::kReady), "snapshot_runtime_ready", "The snapshot is ready.", now()};
  } else {
    log_warn("snapshot not created", {{"id", id}, {"sandbox", sandbox_id}, {"error", made.error().message}});
    status = {std::string(api::snapshot_state::kFailed), "snapshot_runtime_failed", made.error().message, now()};
  }
  const auto changed = co_await store_.change_snapshot(id, {std::string(api::snapshot_state::kCreating)},
                                                       std::move(status), restore_config(id));
  waiters_.notify(id);
  if (!changed && made) (void)co_await backend_.remove_snapshot(id);
}

net::awaitable<SnapshotPtr> SandboxService::wait_snapshot(SnapshotPtr snapshot, std::chrono::nanoseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const std::string id = snapshot->id;
  // Looks once more: || starts its sides on the loop's next turn, and a change before that would wake nobody.
  const auto wait_once = [&]() -> net::awaitable<bool> {
    const SnapshotPtr record = store_.find_snapshot(id);
    if (!record || record->status.state != api::snapshot_state::kCreating) co_return true;
    co_return co_await waiters_.wait(id);
  };
  while (snapshot && snapshot->status.state == api::snapshot_state::kCreating) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (closing_ || left <= left.zero()) break;
    const auto outcome = co_await (wait_once() || sleep_for(left));
    if (outcome.index() == 0 ? !std::get<0>(outcome) : !std::get<1>(outcome)) break;
    snapshot = store_.find_snapshot(id);
  }
  co_return snapshot;
}

net::awaitable<Result<void>> SandboxService::remove_snapshot(std::string id) {
  const auto found = get_snapshot(id);
  if (!found) co_return Failure(found.error());
  api::Status deleting{std::string(api::snapshot_state::kDeleting), "snapshot_delete_requested",
                       "The snapshot is being deleted.", now()};
  const api::Status before = (*found)->status;
  std::vector<std::string> from = {std::string(api::snapshot_state::kDeleting)};
  if (before.state != api::snapshot_state::kCreating) from.push_back(before.state);
  auto changed = co_await store_.change_snapshot(id, from, std::move(deleting), std::nullopt);
  if (!changed) {
    // Somebody else's delete was faster.
    if (changed.error().code == Code::NotFound) co_return Result<void>();
    co_return Failure(changed.error());
  }
  auto removed = co_await finish_snapshot_removal(id);
  if (!removed && removed.error().code == Code::Conflict && before.state != api::snapshot_state::kDeleting) {
    // Refused: it stays what it was, also for the next start, which would carry on with the removal.
    const auto kept =
        co_await store_.change_snapshot(id, {std::string(api::snapshot_state::kDeleting)}, before, std::nullopt);
    if (!kept && kept.error().code != Code::Conflict && kept.error().code != Code::NotFound) {
      co_return Failure(kept.error());
    }
  }
  co_return removed;
}

net::awaitable<Result<std::shared_ptr<http::BodySource>>> SandboxService::export_snapshot(std::string id) {
  const auto found = get_snapshot(id);
  if (!found) co_return Failure(found.error());
  if ((*found)->status.state != api::snapshot_state::kReady) {
    co_return api::refuse(Code::Conflict, api::reason::kSnapshotNotReady,
                          "snapshot " + id + " is " + (*found)->status.state);
  }
  auto archive = co_await backend_.export_snapshot(id);
  if (archive) co_return archive;
  Error error = archive.error();
  error.reason =
      error.code == Code::Unsupported ? api::reason::kSnapshotNotImplemented : reason("SANDBOX_QUERY_FAILED");
  if (error.code != Code::Unsupported) error.code = Code::Internal;
  co_return Failure(std::move(error));
}

net::awaitable<Result<void>> SandboxService::finish_snapshot_removal(std::string id) {
  auto removed = co_await backend_.remove_snapshot(id);
  if (!removed) {
    Error error = removed.error();
    if (error.code == Code::Conflict) error.reason = api::reason::kSnapshotDeleteConflict;
    co_return Failure(std::move(error));
  }
  co_return co_await store_.erase_snapshot(id);
}

net::awaitable<void> SandboxService::recover_snapshot(SnapshotPtr snapshot) {
  const std::string id = snapshot->id;
  if (snapshot->status.state == api::snapshot_state::kDeleting) {
    (void)co_await finish_snapshot_removal(id);
    co_return;
  }
  if (snapshot->status.state != api::snapshot_state::kCreating) co_return;
  const auto there = co_await backend_.has_snapshot(id);
  api::Status status;
  if (!there) {
    status = {std::string(api::snapshot_state::kFailed), "snapshot_recovery_inspect_failed", there.error().message,
              now()};
  } else if (*there) {
    status = {std::string(api::snapshot_state::kReady), "snapshot_recovery_ready", "The snapshot is ready.", now()};
  } else {
    status = {std::string(api::snapshot_state::kFailed), "snapshot_recovery_missing_snapshot",
              "The server ended before the snapshot was made.", now()};
  }
  (void)co_await store_.change_snapshot(id, {std::string(api::snapshot_state::kCreating)}, std::move(status),
                                        restore_config(id));
  waiters_.notify(id);
}

}  // namespace osb::server
