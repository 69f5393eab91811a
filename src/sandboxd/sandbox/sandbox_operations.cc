#include <algorithm>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "async/timer.h"
#include "base/log.h"
#include "kernel/tree_usage.h"
#include "sandboxd/network/connect.h"
#include "sandboxd/sandbox/file_tail.h"
#include "sandboxd/sandbox/sandbox_entry.h"
#include "sys/syscall.h"

namespace osb::sandboxd {

using api::native::Sandbox;
using api::native::State;

namespace {

constexpr std::chrono::seconds kConnectLimit(10);
constexpr std::chrono::seconds kEndIdleLimit(2);  // a sandbox can keep its execd from answering

// What is kept of a sandbox's logs, and how often they are looked at: a sandbox that writes faster fills the disk no
// more than by any other file of its own.
constexpr std::uint64_t kLogBytes = 16 << 20;
constexpr std::chrono::seconds kLogInterval(30);

// The record tells a daemon that finds a frozen sandbox whether somebody paused it, or a snapshot was interrupted.
Result<void> save_state(const std::string& directory, SandboxRecord record, State state) {
  record.status.state = state;
  return save_record(directory, record);
}

}  // namespace

Result<Sandbox> SandboxManager::inspect(const std::string& id) const {
  auto entry = find(id);
  if (!entry) return Failure(entry.error());
  return (*entry)->record.status;
}

std::vector<Sandbox> SandboxManager::list() const {
  std::vector<Sandbox> out;
  for (const auto& [id, entry] : entries_) out.push_back(entry->record.status);
  return out;
}

// A client that has kept a connection would send its next request to a sandbox that stands still, and wait. It opens a
// new connection instead, which is refused at once. Streams of running commands are left alone: they go on afterwards.
net::awaitable<void> SandboxManager::end_idle_connections(EntryPtr entry) {
  const auto done =
      co_await with_timeout(ask_execd(entry->record.status, "POST", "/connections/end-idle"), kEndIdleLimit);
  if (!done) log_warn("open connections left", {{"id", entry->record.spec.id}, {"error", done.error().message}});
}

net::awaitable<Result<void>> SandboxManager::pause(std::string id) {
  auto found = find(id);
  if (!found) co_return Failure(found.error());
  const EntryPtr entry = *found;
  const Entry::Guard guard = co_await Entry::lock(entry);
  if (entry->record.status.state == State::Paused) co_return Result<void>();
  if (entry->record.status.state != State::Running || !entry->live) {
    co_return fail(Code::Conflict, "sandbox " + id + " is " + std::string(to_string(entry->record.status.state)) +
                                       ", only a running one can be paused");
  }
  // Of an OCI runtime's sandbox execd is reached by the address that refuses from then on.
  const bool by_address = entry->record.status.execd_socket.empty();
  if (by_address) co_await end_idle_connections(entry);
  auto refused = co_await pool_.run([&] { return builder_.refuse_connections(*entry->live); });
  if (!refused) co_return with_context("pause sandbox " + id, refused.error());
  if (!by_address) co_await end_idle_connections(entry);
  auto frozen = co_await pool_.run([&]() -> Result<void> {
    auto done = entry->live->cgroup->freeze(true);
    if (done) {
      done = save_state(builder_.directory(id), entry->record, State::Paused);
      if (!done) (void)entry->live->cgroup->freeze(false);
    }
    if (!done) (void)builder_.accept_connections(*entry->live);
    return done;
  });
  if (!frozen) co_return with_context("pause sandbox " + id, frozen.error());
  set_state(*entry, State::Paused);
  co_return Result<void>();
}

net::awaitable<Result<void>> SandboxManager::resume(std::string id) {
  auto found = find(id);
  if (!found) co_return Failure(found.error());
  const EntryPtr entry = *found;
  const Entry::Guard guard = co_await Entry::lock(entry);
  if (entry->record.status.state == State::Running) co_return Result<void>();
  if (entry->record.status.state != State::Paused || !entry->live) {
    co_return fail(Code::Conflict, "sandbox " + id + " is " + std::string(to_string(entry->record.status.state)) +
                                       ", only a paused one can be resumed");
  }
  auto thawed = co_await pool_.run([&]() -> Result<void> {
    // Connections that come before the processes run again wait in their queues.
    if (auto done = builder_.accept_connections(*entry->live); !done) return done;
    auto done = save_state(builder_.directory(id), entry->record, State::Running);
    if (done) done = entry->live->cgroup->freeze(false);
    if (!done) (void)builder_.refuse_connections(*entry->live);
    return done;
  });
  if (!thawed) co_return with_context("resume sandbox " + id, thawed.error());
  set_state(*entry, State::Running);
  co_return Result<void>();
}

net::awaitable<Result<api::native::Stats>> SandboxManager::stats(std::string id) {
  auto found = find(id);
  if (!found) co_return Failure(found.error());
  const EntryPtr entry = *found;
  // Without the lock: it may take a second, and a tree that is being removed can be counted too.
  const std::string upper = builder_.directory(id) + "/upper";
  const std::uint64_t disk_bytes = co_await pool_.run([&]() -> std::uint64_t {
    const auto directory = sys::open_at(AT_FDCWD, upper, O_RDONLY | O_DIRECTORY);
    if (!directory) return 0;
    const auto counted = kernel::tree_usage(directory->get());
    return counted ? counted->bytes : 0;
  });
  const Entry::Guard guard = co_await Entry::lock(entry);
  if (!entry->live || !entry->live->cgroup) co_return fail(Code::Conflict, "sandbox " + id + " is not running");
  auto usage = co_await pool_.run([&] { return entry->live->cgroup->usage(); });
  if (!usage) co_return Failure(usage.error());
  api::native::Stats out;
  out.disk_bytes = disk_bytes;
  out.cpu_usec = usage->cpu_usec;
  out.memory_bytes = usage->memory_bytes.value_or(0);
  out.memory_peak_bytes = usage->memory_peak_bytes.value_or(0);
  out.memory_limit_bytes = usage->memory_limit_bytes;
  out.pids = usage->pids.value_or(0);
  out.io_read_bytes = usage->io_read_bytes.value_or(0);
  out.io_write_bytes = usage->io_write_bytes.value_or(0);
  out.oom_kills = usage->oom_kills;
  co_return out;
}

net::awaitable<void> SandboxManager::bound_logs() {
  while (co_await sleep_for(kLogInterval)) {
    std::vector<std::string> ids;
    for (const auto& [id, entry] : entries_) {
      if (entry->live) ids.push_back(id);
    }
    co_await pool_.run([&] {
      for (const std::string& id : ids) {
        // A sandbox may be removed at any moment: what cannot be opened is gone.
        for (const char* name : {"entrypoint.log", "execd.log"}) {
          (void)free_all_but_tail(builder_.run_file(id, name), kLogBytes);
        }
      }
    });
  }
}

net::awaitable<Result<UniqueFd>> SandboxManager::connect(std::string id, std::uint16_t port) {
  auto found = find(id);
  if (!found) co_return Failure(found.error());
  const EntryPtr entry = *found;
  if (entry->record.status.state == State::Paused) co_return fail(Code::Conflict, "sandbox " + id + " is paused");
  if (!entry->live || !entry->live->slot) co_return fail(Code::Conflict, "sandbox " + id + " is not running");
  // Its network stack is not the kernel's: behind the namespace's own loopback is nobody.
  if (!entry->record.spec.runtime.empty()) {
    const std::string address = entry->record.status.address;
    co_return co_await pool_.run([&] { return connect_to_address(address, port, kConnectLimit); });
  }
  // A descriptor of our own: the sandbox may be removed meanwhile.
  const bool in_hosts = entry->record.spec.network == api::native::NetworkMode::Host;
  const UniqueFd netns(in_hosts ? ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)
                                : ::fcntl(entry->live->slot->netns.get(), F_DUPFD_CLOEXEC, 3));
  co_return co_await pool_.run([&] { return connect_in_namespace(netns.get(), port, kConnectLimit); });
}

}  // namespace osb::sandboxd
