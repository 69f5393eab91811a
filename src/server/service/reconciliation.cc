#include "server/service/reconciliation.h"

#include <unordered_set>

#include "base/log.h"

namespace osb::server {

using runtime::Instance;

void Reconciliation::on_change(Instance instance) {
  parts_.states.apply(instance);
  parts_.adoption.consider(instance);
}

void Reconciliation::on_removed(std::string id) {
  const SandboxPtr record = context_.store.find(id);
  // A create that failed says why itself.
  if (!record || record->has_ended() || parts_.creates.is_under_way(id)) return;
  lost(record, "SANDBOX_REMOVED", "The sandbox was removed behind the server's back.");
}

void Reconciliation::lost(const SandboxPtr& record, std::string reason, std::string message) {
  if (context_.backend.capabilities().removals_are_shared) {
    context_.tasks.spawn("drop a record", [](Removals& removals, std::string id) -> net::awaitable<void> {
      (void)co_await removals.remove(std::move(id), Scope::all());
    }(parts_.removals, record->id));
    return;
  }
  log_warn("sandbox is gone", {{"id", record->id}, {"state", record->status.state}});
  parts_.states.set(record, api::state::kTerminated, std::move(reason), std::move(message));
}

void Reconciliation::on_lost(const Error& why) {
  if (parts_.presence.note_lost(why)) log_warn("backend does not answer", {{"error", why.message}});
}

void Reconciliation::on_all(std::vector<Instance> instances) {
  parts_.presence.note_found();
  if (!std::exchange(recovered_, true)) recover();
  std::unordered_set<std::string> present;
  std::size_t foreign = 0;
  for (const Instance& instance : instances) {
    present.insert(instance.id);
    parts_.states.apply(instance);
    if (!parts_.adoption.consider(instance) && !context_.store.find(instance.id)) ++foreign;
  }
  for (const SandboxPtr& record : context_.store.all()) {
    if (present.contains(record->id) || record->has_ended() || parts_.creates.is_under_way(record->id)) continue;
    if (record->status.state == api::state::kPending) {
      // Accepted, and lost on its way to the backend.
      parts_.creates.resume(record);
    } else {
      lost(record, "SANDBOX_LOST", "The backend no longer has the sandbox.");
    }
  }
  // Sandboxes of other programs are ended by those.
  log_info("backend is connected", {{"sandboxes", instances.size()}, {"not_ours", foreign}});
  parts_.presence.note_reconciled();
  // A build looks for its sandbox among the records, which are up to date only now.
  if (!std::exchange(templates_recovered_, true)) parts_.templates.recover();
}

void Reconciliation::recover() {
  for (const std::string& id : context_.store.removals()) parts_.removals.begin(id);
  parts_.snapshots.recover();
}

}  // namespace osb::server
