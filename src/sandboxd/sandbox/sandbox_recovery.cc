#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"
#include "sandboxd/sandbox/sandbox_entry.h"

namespace osb::sandboxd {

using api::native::State;

Result<void> SandboxManager::recover() {
  std::vector<SandboxRecord> unfinished;
  for (const std::string& id : builder_.ids()) {
    if (api::native::is_valid_id(id)) recover_one(id, unfinished);
  }
  // When it is known what the living use.
  for (SandboxRecord& record : unfinished) finish(std::move(record));
  std::vector<std::string> living;
  for (const auto& [id, entry] : entries_) {
    if (entry->live) living.push_back(id);
  }
  builder_.sweep(living);
  builder_.empty_trash();
  for (const SnapshotInfo& snapshot : snapshots_.list()) {
    auto leases = images_.lease(snapshot.base.diff_ids);
    if (!leases) {
      log_error("snapshot without its image", {{"id", snapshot.id}, {"error", leases.error().message}});
      continue;
    }
    snapshot_leases_[snapshot.id] = std::move(*leases);
  }
  return {};
}

// A create or a remove that was interrupted.
void SandboxManager::finish(SandboxRecord record) {
  const std::string id = record.spec.id;
  log_info("finishing what was begun", {{"id", id}, {"what", record.removing ? "remove" : "create"}});
  auto live = builder_.adopt(record);
  builder_.tear_down(record, live ? std::move(*live) : LiveSandbox());
  builder_.sweep_one(id);
  builder_.erase(record);
}

void SandboxManager::recover_one(const std::string& id, std::vector<SandboxRecord>& unfinished) {
  auto record = load_record(builder_.directory(id));
  auto entry = std::make_shared<Entry>(executor_);
  if (!record) {
    if (record.error().code != Code::NotFound) {
      // Somebody else has been here: it stays for him to look at. Its processes end with the sweep.
      log_error("record cannot be read", {{"id", id}, {"error", record.error().message}});
      return;
    }
    entry->record.spec.id = id;  // the crash came before the record
    unfinished.push_back(std::move(entry->record));
    return;
  }
  entry->record = std::move(*record);
  // A create is whole when its process is recorded; whoever asked for it finds it in the list.
  if (entry->record.removing || !entry->record.process) {
    unfinished.push_back(std::move(entry->record));
    return;
  }
  const bool had_ended = entry->record.status.state == State::Exited;
  auto live = had_ended ? Result<LiveSandbox>(fail(Code::NotFound, "")) : builder_.adopt(entry->record);
  if (live) {
    auto leases = images_.lease(entry->record.layers);
    if (leases) entry->leases = std::move(*leases);
    entry->live = std::move(*live);
    bool frozen = entry->live->cgroup->frozen().value_or(false);
    if (frozen && entry->record.status.state != State::Paused) {
      // By a snapshot that was interrupted.
      const auto thawed = entry->live->cgroup->freeze(false);
      frozen = !thawed;
      if (!thawed) log_error("sandbox left frozen", {{"id", id}, {"error", thawed.error().message}});
    }
    entry->record.status.state = frozen ? State::Paused : State::Running;
    if (frozen) {
      if (const auto refused = builder_.refuse_connections(*entry->live); !refused)
        log_error("paused sandbox not refused", {{"id", id}, {"error", refused.error().message}});
    }
    log_info("sandbox found again", {{"id", id}, {"state", to_string(entry->record.status.state)}});
  } else if (!had_ended) {
    if (live.error().code != Code::NotFound) {
      log_error("sandbox lost", {{"id", id}, {"error", live.error().message}});
    }
    const auto boot = kernel::identify(::getpid());
    const bool restarted = boot && boot->boot_id != entry->record.process->boot_id;
    LiveSandbox rest;
    if (auto cgroup = builder_.cgroup_of(id)) rest.cgroup = std::move(*cgroup);
    entry->live = std::move(rest);
    const api::native::Exit exit = how_it_ended(*entry);
    builder_.tear_down(entry->record, std::move(*entry->live));
    entry->live.reset();
    record_exit(*entry, exit);
    if (restarted) {
      entry->record.status.reason = "HOST_RESTARTED";
      entry->record.status.message = "the host was restarted";
      (void)save_record(builder_.directory(id), entry->record);
    }
  }
  entry->settled.set();
  entries_.emplace(id, std::move(entry));
}

void SandboxManager::start() {
  tasks_.spawn("bound logs", bound_logs());
  prepare_later();
  for (const auto& [id, entry] : entries_) {
    if (!entry->live) continue;
    auto watched = Descriptor::open(executor_, UniqueFd(::fcntl(entry->live->pidfd.get(), F_DUPFD_CLOEXEC, 3)));
    if (!watched) {
      log_error("sandbox not watched", {{"id", id}, {"error", watched.error().message}});
      continue;
    }
    entry->exit_watch.emplace(std::move(*watched));
    tasks_.spawn("watch sandbox", watch_exit(entry));
  }
}

}  // namespace osb::sandboxd
