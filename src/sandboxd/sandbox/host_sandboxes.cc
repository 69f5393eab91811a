#include "sandboxd/sandbox/host_sandboxes.h"

#include <algorithm>
#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/ports.h"
#include "kernel/tree_usage.h"
#include "sandboxd/network/connect.h"
#include "sandboxd/sandbox/ask_execd.h"
#include "sandboxd/sandbox/recovery.h"
#include "sandboxd/sandbox/sandbox_pause.h"
#include "sys/syscall.h"

namespace osb::sandboxd {

using api::native::SandboxStatus;
using api::native::State;

namespace {

constexpr std::chrono::seconds kConnectLimit(10);
constexpr std::chrono::seconds kEndIdleLimit(2);  // a sandbox can keep its execd from answering

std::uint64_t disk_usage(const std::string& directory) {
  const auto opened = sys::open_at(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
  if (!opened) return 0;
  const auto counted = kernel::tree_usage(opened->get());
  return counted ? counted->bytes : 0;
}

}  // namespace

HostSandboxes::HostSandboxes(net::any_io_executor executor, BlockingPool& pool, SandboxBuilder& builder,
                             ImageService& images, SnapshotStore& snapshots)
    : tasks_(executor),
      table_(executor),
      context_{executor, pool, builder, table_, tasks_},
      images_(images),
      endings_(context_),
      snapshots_(context_, images, snapshots),
      logs_(context_),
      client_(http::make_plain_connector()),
      creates_(context_, images, snapshots_, endings_, client_) {
  table_.on_change([this](const std::string& id) { logs_.poke(id); });
}

void HostSandboxes::recover() {
  Recovery(context_, images_, endings_).run();
  snapshots_.recover();
}

void HostSandboxes::start() {
  tasks_.spawn("bound logs", logs_.bound());
  creates_.prepare_later();
  for (const auto& [id, entry] : table_.entries()) {
    if (!entry->live) continue;
    if (auto watched = endings_.open_watch(*entry); !watched) {
      log_error("sandbox not watched", {{"id", id}, {"error", watched.error().message}});
      continue;
    }
    endings_.watch(entry);
  }
}

void HostSandboxes::end_watching() {
  table_.end_watching();
  logs_.end_following();
}

net::awaitable<void> HostSandboxes::close() {
  for (const auto& [id, entry] : table_.entries()) entry->abort.set();
  for (;;) {
    const auto busy = std::ranges::find_if(table_.entries(), [](const auto& each) { return each.second->busy; });
    if (busy == table_.entries().end()) break;
    const EntryPtr entry = busy->second;
    const EntryGuard guard = co_await EntryGuard::lock(entry);
  }
  co_await logs_.close();
  co_await tasks_.close();
}

Result<SandboxStatus> HostSandboxes::inspect(const std::string& id) const {
  auto entry = table_.find(id);
  if (!entry) return Failure(entry.error());
  return (*entry)->record.status;
}

std::vector<SandboxStatus> HostSandboxes::list() const {
  std::vector<SandboxStatus> out;
  for (const auto& [id, entry] : table_.entries()) out.push_back(entry->record.status);
  return out;
}

// A client that has kept a connection would send its next request to a paused sandbox, and wait. It opens a new
// connection instead, which is refused at once. Streams of running commands are left alone: they go on afterwards.
net::awaitable<void> HostSandboxes::end_idle_connections(EntryPtr entry) {
  const auto done =
      co_await with_timeout(ask_execd(client_, entry->record.status, "POST", "/connections/end-idle"), kEndIdleLimit);
  if (!done) log_warn("open connections left", {{"id", entry->id()}, {"error", done.error().message}});
}

net::awaitable<Result<void>> HostSandboxes::refuse(EntryPtr entry) {
  // execd of an OCI runtime's sandbox is reached by the address that refuses from then on.
  const bool by_address = entry->record.status.execd_socket.empty();
  if (by_address) co_await end_idle_connections(entry);
  Result<void> refused;
  if (entry->live->slot) {
    refused =
        co_await context_.pool.run([&] { return context_.builder.parts().rules.refuse(entry->live->slot->index); });
  }
  if (refused && !by_address) co_await end_idle_connections(entry);
  co_return refused;
}

net::awaitable<Result<void>> HostSandboxes::pause(std::string id) {
  return move(std::move(id), State::Running, State::Paused, &pause_sandbox);
}

net::awaitable<Result<void>> HostSandboxes::resume(std::string id) {
  return move(std::move(id), State::Paused, State::Running, &resume_sandbox);
}

net::awaitable<Result<void>> HostSandboxes::move(std::string id, State from, State to, Freezer freezer) {
  auto found = table_.find(id);
  if (!found) co_return Failure(found.error());
  const EntryPtr entry = *found;
  const EntryGuard guard = co_await EntryGuard::lock(entry);
  const State state = entry->record.status.state;
  const std::string_view verb = to == State::Paused ? "pause" : "resume";
  if (state == to) co_return Result<void>();
  if (state != from || !entry->live) {
    co_return fail(Code::Conflict, fmt::format("sandbox {} is {}, only a {} one can be {}d", id, to_string(state),
                                               to_string(from), verb));
  }
  if (to == State::Paused) {
    if (auto refused = co_await refuse(entry); !refused) {
      co_return with_context(fmt::format("pause sandbox {}", id), refused.error());
    }
  }
  auto done = co_await context_.pool.run(
      [&] { return freezer(context_.config(), context_.builder.parts().rules, entry->record, *entry->live); });
  if (!done) co_return with_context(fmt::format("{} sandbox {}", verb, id), done.error());
  table_.set_state(*entry, to);
  co_return Result<void>();
}

net::awaitable<Result<api::native::Stats>> HostSandboxes::stats(std::string id) {
  auto found = table_.find(id);
  if (!found) co_return Failure(found.error());
  const EntryPtr entry = *found;
  // Without the lock: it may take a second, and a tree that is being removed can be counted too.
  const std::string upper = context_.config().tree(id) + "/upper";
  const std::uint64_t disk_bytes = co_await context_.pool.run([&] { return disk_usage(upper); });
  const EntryGuard guard = co_await EntryGuard::lock(entry);
  if (!entry->live || !entry->live->cgroup) co_return fail(Code::Conflict, "sandbox " + id + " is not running");
  auto usage = co_await context_.pool.run([&] { return entry->live->cgroup->usage(); });
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

net::awaitable<Result<UniqueFd>> HostSandboxes::connect(std::string id, std::uint16_t port) {
  auto found = table_.find(id);
  if (!found) co_return Failure(found.error());
  const EntryPtr entry = *found;
  // Also of a paused one.
  if (port == kEgressPort && entry->record.network_policy && entry->live && policy_api_) co_return policy_api_(id);
  if (entry->record.status.state == State::Paused) co_return fail(Code::Conflict, "sandbox " + id + " is paused");
  if (!entry->live || !entry->live->slot) co_return fail(Code::Conflict, "sandbox " + id + " is not running");
  // A runtime has its own network stack: nothing listens on the namespace's own loopback.
  if (!entry->record.spec.runtime.empty()) {
    auto begun = begin_connect_to_address(entry->record.status.address, port);
    if (!begun) co_return begun;
    co_return co_await finish_connect(std::move(*begun), port, kConnectLimit);
  }
  // A descriptor of our own: the sandbox may be removed meanwhile.
  const bool host_network = entry->record.spec.network == api::native::NetworkMode::Host;
  const UniqueFd netns(host_network ? ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)
                                    : ::fcntl(entry->live->slot->netns.get(), F_DUPFD_CLOEXEC, 3));
  auto begun = co_await context_.pool.run([&] { return begin_connect_in_namespace(netns.get(), port); });
  if (!begun) co_return begun;
  co_return co_await finish_connect(std::move(*begun), port, kConnectLimit);
}

net::awaitable<Result<std::uint64_t>> HostSandboxes::set_policy(std::string id, std::uint64_t revision,
                                                                policy::Policy policy) {
  return change_policy(std::move(id),
                       [revision, policy = std::move(policy)](NetworkPolicies& policies, const std::string& of,
                                                              const NetworkPolicies::Save& save) {
                         return policies.change(of, revision, policy, save);
                       });
}

net::awaitable<Result<std::uint64_t>> HostSandboxes::set_vault(std::string id,
                                                               std::optional<boost::json::object> vault) {
  return change_policy(std::move(id), [vault = std::move(vault)](NetworkPolicies& policies, const std::string& of,
                                                                 const NetworkPolicies::Save& save) {
    return policies.set_vault(of, vault, save);
  });
}

net::awaitable<Result<std::uint64_t>> HostSandboxes::change_policy(std::string id, ChangePolicy change) {
  auto found = table_.find(id);
  if (!found) co_return fail(Code::Conflict, found.error().message);
  const EntryPtr entry = std::move(*found);
  const EntryGuard guard = co_await EntryGuard::lock(entry);
  NetworkPolicies* const policies = context_.builder.parts().policies;
  if (!entry->record.network_policy || !entry->live || policies == nullptr)
    co_return fail(Code::Conflict, "sandbox " + id + " has no network policy (any more)");
  SandboxRecord record = entry->record;
  const auto changed = co_await context_.pool.run([&] {
    return change(*policies, id, [&](const PolicyRecord& next) {
      record.network_policy = next;
      return save_record(context_.config().directory(id), record);
    });
  });
  if (!changed) co_return Failure(changed.error());
  entry->record.network_policy = *changed;
  co_return changed->revision;
}

}  // namespace osb::sandboxd
