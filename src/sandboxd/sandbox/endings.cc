#include "sandboxd/sandbox/endings.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/lifecycle_hooks.h"
#include "base/log.h"
#include "sandboxd/sandbox/exit_reason.h"

namespace osb::sandboxd {

using api::native::State;

Result<void> Endings::open_watch(SandboxEntry& entry) {
  auto watched = Descriptor::open(context_.executor, UniqueFd(::fcntl(entry.live->pidfd.get(), F_DUPFD_CLOEXEC, 3)));
  if (!watched) return Failure(watched.error());
  entry.exit_watch.emplace(std::move(*watched));
  return {};
}

net::awaitable<void> Endings::watch_exit(EntryPtr entry) {
  if (!co_await entry->exit_watch->wait_readable()) co_return;
  const EntryGuard guard = co_await EntryGuard::lock(entry);
  if (entry->removing || !entry->live) co_return;
  const Ending ending = how_it_ended(*entry);
  co_await tear_down(entry);
  record_exit(*entry, ending);
}

Endings::Ending Endings::how_it_ended(const SandboxEntry& entry) const {
  std::optional<sys::ExitStatus> process;
  kernel::CgroupUsage usage;
  if (entry.live && entry.live->pidfd.get() >= 0) {
    siginfo_t info{};
    if (::waitid(P_PIDFD, static_cast<id_t>(entry.live->pidfd.get()), &info, WEXITED | WNOHANG) == 0 &&
        info.si_pid != 0) {
      process = info.si_code == CLD_EXITED ? sys::ExitStatus{info.si_status, 0} : sys::ExitStatus{0, info.si_status};
    } else {
      process = kernel::exit_of(entry.live->pidfd.get());
    }
  }
  if (entry.live && entry.live->cgroup) usage = entry.live->cgroup->usage().value_or(kernel::CgroupUsage());
  Ending out;
  out.exit = describe_exit(read_exit_record(context_.config().exit_file(entry.id(), entry.record.spec.runtime)),
                           process, usage.oom_kills > 0);
  out.message = exit_message(out.exit, entry.record.spec.limits.memory_bytes, usage.reached_memory_limit());
  return out;
}

void Endings::record_exit(SandboxEntry& entry, const Ending& ending) {
  api::native::SandboxStatus& status = entry.record.status;
  const api::native::Exit& exit = ending.exit;
  status.exit = exit;
  const NotStarted not_started = read_not_started(context_.config().exit_file(status.id, entry.record.spec.runtime));
  status.reason = not_started.hook_failed ? std::string(api::kReasonHookFailed) : exit_reason(exit);
  status.ended_at = context_.builder.parts().now();
  status.pid = 0;
  log_info("sandbox ended", {{"id", status.id}, {"reason", status.reason}, {"code", exit.code}});
  std::string message = ending.message;
  if (not_started.hook_failed) {
    message = not_started.why;
  } else if (!not_started.why.empty()) {
    message += ": " + not_started.why;
  }
  context_.table.set_state(entry, State::Exited, std::move(message));
  if (auto saved = save_record(context_.config().directory(status.id), entry.record); !saved) {
    log_error("record not written", {{"id", status.id}, {"error", saved.error().message}});
  }
}

void Endings::record_lost(SandboxEntry& entry) {
  const auto here = kernel::identify(::getpid());
  const bool restarted = here && here->boot_id != entry.record.process->boot_id;
  entry.live.emplace();
  if (auto cgroup = context_.builder.parts().cgroups.open_existing(entry.id())) entry.live->cgroup = std::move(*cgroup);
  const Ending ending = how_it_ended(entry);
  context_.builder.teardown().end(entry.record, std::move(*entry.live));
  entry.live.reset();
  record_exit(entry, ending);
  if (!restarted) return;
  entry.record.status.reason = "HOST_RESTARTED";
  entry.record.status.message = "the host was restarted";
  (void)save_record(context_.config().directory(entry.id()), entry.record);
}

net::awaitable<void> Endings::tear_down(EntryPtr entry) {
  LiveSandbox live = std::move(*entry->live);
  entry->live.reset();
  SandboxRecord record = entry->record;  // the pool's own: the loop shows the entry's to others meanwhile
  co_await context_.pool.run([&] { context_.builder.teardown().end(record, std::move(live)); });
  entry->record = std::move(record);
  entry->leases.clear();
}

net::awaitable<void> Endings::discard(EntryPtr entry, Error why) {
  entry->error = std::move(why);
  entry->removing = true;
  if (entry->live) {
    entry->record.volumes_to_delete = entry->live->new_volumes;
    co_await tear_down(entry);
    co_await context_.pool.run([&] { context_.builder.teardown().erase(entry->record); });
  }
  empty_trash_later();
  context_.table.remove(*entry, entry->error);
}

net::awaitable<Result<void>> Endings::remove(std::string id) {
  auto found = context_.table.find(id);
  if (!found) co_return Failure(found.error());
  const EntryPtr entry = *found;
  entry->abort.set();
  entry->unwanted = true;
  // Ends a create that waits for execd at once.
  if (entry->record.status.state == State::Creating && entry->live && entry->live->cgroup) {
    (void)entry->live->cgroup->kill();
  }
  const EntryGuard guard = co_await EntryGuard::lock(entry);
  // A failed create or another remove may have removed it meanwhile.
  if (!context_.table.holds(*entry)) co_return Result<void>();
  const Stopwatch time(context_.clock());
  entry->removing = true;
  entry->record.removing = true;
  context_.table.set_state(*entry, State::Removing);
  SandboxRecord record = entry->record;  // both are the pool's own, see tear_down()
  std::optional<LiveSandbox> live = std::exchange(entry->live, std::nullopt);
  co_await context_.pool.run([&] {
    // So that a crash in the middle does not bring the sandbox back. If it cannot be written, the old record says that
    // the sandbox lives, and recovery finds it dead.
    (void)save_record(context_.config().directory(id), record);
    context_.config().step("removal recorded");
    if (live) context_.builder.teardown().end(record, std::move(*live));
    context_.builder.teardown().erase(record);
  });
  entry->leases.clear();
  context_.table.remove(*entry);
  empty_trash_later();
  log_info("sandbox removed", {{"id", id}, {"ms", time.ms()}});
  co_return Result<void>();
}

void Endings::empty_trash_later() {
  empty_again_ = true;
  if (!std::exchange(emptying_trash_, true)) context_.tasks.spawn("empty trash", empty_trash());
}

net::awaitable<void> Endings::empty_trash() {
  while (std::exchange(empty_again_, false)) {
    co_await context_.pool.run([&] { context_.builder.teardown().empty_trash(); });
  }
  emptying_trash_ = false;
}

}  // namespace osb::sandboxd
