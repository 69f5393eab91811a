#include "sandboxd/sandbox/recovery.h"

#include "base/log.h"

namespace osb::sandboxd {

using api::native::State;

void Recovery::run() {
  for (const std::string& id : context_.builder.ids()) {
    if (api::native::is_valid_id(id)) recover(id);
  }
  // After all living sandboxes have been found: their volumes stay.
  for (SandboxRecord& record : unfinished_) finish(std::move(record));
  context_.builder.teardown().sweep(context_.table.living());
  context_.builder.teardown().empty_trash();
}

void Recovery::recover(const std::string& id) {
  auto record = load_record(context_.config().directory(id));
  if (!record && record.error().code != Code::NotFound) {
    // sandboxd did not write this: it stays for people to look at. Its processes end with the sweep.
    log_error("record cannot be read", {{"id", id}, {"error", record.error().message}});
    return;
  }
  if (!record) {
    // The crash came before the record.
    record = SandboxRecord();
    record->spec.id = id;
  }
  // A create is whole when its process is recorded; its caller finds the sandbox in the list.
  if (record->removing || !record->process) {
    unfinished_.push_back(std::move(*record));
    return;
  }
  const EntryPtr entry = context_.table.make_entry();
  entry->record = std::move(*record);
  if (entry->record.status.state != State::Exited) {
    auto live = context_.builder.adopt(entry->record);
    if (live) {
      adopt(*entry, std::move(*live));
    } else {
      if (live.error().code != Code::NotFound) {
        log_error("sandbox lost", {{"id", id}, {"error", live.error().message}});
      }
      endings_.record_lost(*entry);
    }
  }
  entry->settled.set();
  context_.table.add(entry);
}

void Recovery::adopt(SandboxEntry& entry, LiveSandbox live) {
  if (auto leases = images_.lease(entry.record.layers)) entry.leases = std::move(*leases);
  State& state = entry.record.status.state;
  bool frozen = live.cgroup->frozen().value_or(false);
  if (frozen && state != State::Paused) {
    // By a snapshot that was interrupted.
    const auto thawed = live.cgroup->freeze(false);
    frozen = !thawed;
    if (!thawed) log_error("sandbox left frozen", {{"id", entry.id()}, {"error", thawed.error().message}});
  }
  state = frozen ? State::Paused : State::Running;
  if (frozen && live.slot) {
    if (const auto refused = context_.builder.parts().rules.refuse(live.slot->index); !refused)
      log_error("paused sandbox not refused", {{"id", entry.id()}, {"error", refused.error().message}});
  }
  entry.live = std::move(live);
  log_info("sandbox found again", {{"id", entry.id()}, {"state", to_string(state)}});
}

// A create or a remove that was interrupted.
void Recovery::finish(SandboxRecord record) {
  const std::string id = record.spec.id;
  log_info("finishing an interrupted operation", {{"id", id}, {"what", record.removing ? "remove" : "create"}});
  auto live = context_.builder.adopt(record);
  context_.builder.teardown().end(record, live ? std::move(*live) : LiveSandbox());
  context_.builder.teardown().sweep_cgroup(id);
  context_.builder.teardown().erase(record);
}

}  // namespace osb::sandboxd
