#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/lifecycle_query.h"
#include "async/net.h"
#include "base/error.h"
#include "server/store/record.h"

namespace osb::server {

// The server's records, behind one interface for SQLite and, later, other databases.
//
// The promise: a change is durable when its awaitable completes with success, and no reader sees it before that; after
// a failure nothing of it exists. After a kill -9 exactly the answered changes exist, and possibly those under way.
// Changes are decided one after the other, each on what the ones before it left, so that of two that race exactly one
// wins. Sandbox status is the exception: change_status() shows at once and becomes durable with the next commit,
// because it only repeats what the backend knows and can be asked again. flush() waits for it where it matters.
//
// A removed sandbox goes in two steps. begin_remove() and expire_if_due() take the record out of sight (every
// operation then says NotFound) and leave a durable note in removals(); the winner removes the sandbox from the backend
// and calls forget(). After a crash between the two the note is still there, so nothing is leaked.
//
// Reads come from memory, never wait for the disk and may happen on any thread. Awaitables resume on the executor of
// the coroutine that awaits them; a change that has begun cannot be cancelled. Errors that are the database's (full,
// read-only, damaged) have Code::Internal and a reason that starts with GENERAL::STORE_.
class Store {
 public:
  virtual ~Store() = default;

  // --- sandboxes: reads

  // For the server itself. nullptr: unknown, or on its way out.
  virtual SandboxPtr find(std::string_view id) const = 0;
  // For requests. nullptr also when the scope does not cover it.
  SandboxPtr find(std::string_view id, const Scope& scope) const {
    SandboxPtr record = find(id);
    return record && scope.covers(record->owner.tenant) ? record : nullptr;
  }

  template <typename Pointer>
  struct Page {
    std::vector<Pointer> items;
    std::int64_t total = 0;  // that match, on all pages
  };
  // Newest first; equal times by id, descending.
  virtual Page<SandboxPtr> list(const api::SandboxQuery& query, const Scope& scope) const = 0;
  virtual std::vector<SandboxPtr> all() const = 0;
  virtual std::size_t size() const = 0;

  // The earliest deadline, and everything whose deadline is not after `running`, earliest first: one timer is enough.
  // Both by Moment::running().
  virtual std::optional<Timestamp> next_deadline() const = 0;
  virtual std::vector<SandboxPtr> due(Timestamp running) const = 0;

  // Ids that were taken out of sight and not yet forgotten.
  virtual std::vector<std::string> removals() const = 0;

  // --- sandboxes: changes

  struct Created {
    SandboxPtr record;   // nullptr: the key is known, its sandbox gone
    bool fresh = true;   // false: `key` was used before, with the same fingerprint; nothing was written
    std::string id;      // of the first create
    std::string answer;  // of the first create
  };
  // An id in use is Conflict. A key that was used with another fingerprint during the last 24 hours is Conflict with
  // SANDBOX::IDEMPOTENCY_CONFLICT. `record.created_at` is the time that counts. `unique_name`: a sandbox that has not
  // ended, belongs to the same tenant and has the same "name" in its metadata is Conflict with SANDBOX::NAME_IN_USE.
  virtual net::awaitable<Result<Created>> create(SandboxRecord record, std::optional<IdempotencyKey> key,
                                                 bool unique_name = false) = 0;
  // The create behind a key, without creating anything; nothing when it is unknown or older than 24 hours.
  virtual Result<std::optional<Created>> find_key(std::string_view key, std::string_view fingerprint,
                                                  Timestamp now) const = 0;

  virtual net::awaitable<Result<SandboxPtr>> patch_metadata(std::string id, api::MetadataPatch patch) = 0;

  // Sets the deadline, earlier or later. NotFound when the sandbox is unknown, on its way out, or past its deadline at
  // `now` (its expiry is certain, even if the timer has not fired); Conflict when it has none. `until` is after `now`.
  virtual net::awaitable<Result<SandboxPtr>> renew(std::string id, Timestamp until, Moment now) = 0;
  // Access renewal: now + access_renew, never earlier than what it is. Success with the unchanged record when there
  // is nothing to do: no deadline, not asked for.
  virtual net::awaitable<Result<SandboxPtr>> extend(std::string id, Moment now) = 0;

  // The other side of the race: takes the record out of sight if its deadline is not after `running`. Nothing when it
  // was renewed, has none, or another caller removed it. The caller that gets the record removes the sandbox.
  virtual net::awaitable<Result<std::optional<SandboxPtr>>> expire_if_due(std::string id, Timestamp running) = 0;
  // The same for DELETE, without a condition. NotFound for the loser. `free_key`: an Idempotency-Key that stands for
  // this sandbox and may be used again from now on.
  virtual net::awaitable<Result<SandboxPtr>> begin_remove(std::string id, std::string free_key = {}) = 0;
  // The backend has nothing left of it. Shows at once, durable with the next commit: repeating a removal is harmless.
  virtual void forget(std::string_view id) = 0;

  // Compare and set, at once and in memory: from one of `from` (any state when empty). NotFound, or Conflict whose
  // message names the state it is in. See above for when it is durable.
  virtual Result<SandboxPtr> change_status(std::string_view id, std::initializer_list<std::string_view> from,
                                           api::Status to) = 0;
  // Completes when every change_status() and forget() before it is durable.
  virtual net::awaitable<Result<void>> flush() = 0;
  // The same, and writes something small in any case: whether the store can still be written to.
  virtual net::awaitable<Result<void>> probe() = 0;

  // --- snapshots; every change is durable when it completes

  virtual SnapshotPtr find_snapshot(std::string_view id) const = 0;  // for the server itself
  SnapshotPtr find_snapshot(std::string_view id, const Scope& scope) const {
    SnapshotPtr record = find_snapshot(id);
    return record && scope.covers(record->owner.tenant) ? record : nullptr;
  }
  virtual Page<SnapshotPtr> list_snapshots(const api::SnapshotQuery& query, const Scope& scope) const = 0;
  virtual std::vector<SnapshotPtr> all_snapshots() const = 0;

  virtual net::awaitable<Result<void>> create_snapshot(SnapshotRecord record) = 0;
  // Compare and set: from one of `from`. NotFound SNAPSHOT::NOT_FOUND; Conflict SNAPSHOT::INVALID_STATE.
  // `restore_config` replaces the stored one when given.
  virtual net::awaitable<Result<SnapshotPtr>> change_snapshot(std::string id, std::vector<std::string> from,
                                                              api::Status to,
                                                              std::optional<std::string> restore_config) = 0;
  // Success also when it is gone already.
  virtual net::awaitable<Result<void>> erase_snapshot(std::string id) = 0;

  // --- templates; every change is durable when it completes

  virtual TemplatePtr find_template(std::string_view id) const = 0;  // for the server itself: also one being deleted
  // For requests: those being deleted do not exist.
  TemplatePtr find_template(std::string_view id, const Scope& scope) const {
    TemplatePtr record = find_template(id);
    const bool visible = record && record->status.phase != api::template_phase::kDeleting;
    return visible && scope.covers(record->owner.tenant) ? record : nullptr;
  }
  // Newest first, without those being deleted.
  virtual Page<TemplatePtr> list_templates(const api::TemplateQuery& query, const Scope& scope) const = 0;
  virtual std::vector<TemplatePtr> all_templates() const = 0;

  virtual net::awaitable<Result<void>> create_template(TemplateRecord record) = 0;
  // Compare and set: from one of the phases `from`. NotFound FSB::TEMPLATE_NOT_FOUND; Conflict FSB::TEMPLATE_CONFLICT.
  // `change` may run more than once.
  using TemplateChange = std::function<void(TemplateRecord&)>;
  virtual net::awaitable<Result<TemplatePtr>> change_template(std::string id, std::vector<std::string_view> from,
                                                              TemplateChange change) = 0;
  // Success also when it is gone already.
  virtual net::awaitable<Result<void>> erase_template(std::string id) = 0;
};

}  // namespace osb::server
