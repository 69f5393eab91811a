#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sandboxd/sandbox/creates.h"
#include "sandboxd/sandbox/endings.h"
#include "sandboxd/sandbox/sandbox_logs.h"
#include "sandboxd/sandbox/sandbox_snapshots.h"

namespace osb::sandboxd {

// All sandboxes of this host and the operations on them. Lives on one loop; blocking work goes to the pool. The
// constructor's arguments outlive it. Operations on one sandbox happen one after the other.
class HostSandboxes {
 public:
  HostSandboxes(net::any_io_executor executor, BlockingPool& pool, SandboxBuilder& builder, ImageService& images,
                SnapshotStore& snapshots);

  // Before anything else: see Recovery. Blocks. The caller starts the slot pool afterwards.
  void recover();
  // Watches the sandboxes that recover() found.
  void start();
  // Waits for operations that are under way. Sandboxes go on living.
  net::awaitable<void> close();

  net::awaitable<Result<api::native::SandboxStatus>> create(api::native::CreateSandbox spec) {
    return creates_.create(std::move(spec));
  }
  Result<api::native::SandboxStatus> inspect(const std::string& id) const;  // Code::NotFound, as of all that follow
  std::vector<api::native::SandboxStatus> list() const;
  net::awaitable<Result<void>> remove(std::string id) { return endings_.remove(std::move(id)); }
  net::awaitable<Result<void>> pause(std::string id);   // a paused one: success
  net::awaitable<Result<void>> resume(std::string id);  // a running one: success
  net::awaitable<Result<api::native::Stats>> stats(std::string id);
  // A connected socket to a port inside, with any network mode. In sandboxes of an OCI runtime it reaches only ports
  // that listen on the sandbox's address.
  net::awaitable<Result<UniqueFd>> connect(std::string id, std::uint16_t port);
  // Enforces and stores another network policy; returns its revision. Code::Conflict: another revision is in force, or
  // the sandbox has gone or never had one.
  net::awaitable<Result<std::uint64_t>> set_policy(std::string id, std::uint64_t revision, policy::Policy policy);
  // Stores what a restart must know about a credential vault; returns the policy's revision. Code::Conflict as above.
  net::awaitable<Result<std::uint64_t>> set_vault(std::string id, std::optional<boost::json::object> vault);
  // Makes connections to the policy API of sandboxes with a network policy, which is outside of them.
  void on_policy_api(std::function<Result<UniqueFd>(const std::string& id)> connect) {
    policy_api_ = std::move(connect);
  }

  SandboxLogs& logs() { return logs_; }
  SandboxSnapshots& snapshots() { return snapshots_; }

  std::shared_ptr<EventFeed::Watcher> watch() { return table_.watch(); }
  // Ends the streams of watchers and of readers that follow a log: they would hold a stopping server back.
  void end_watching();

 private:
  using Freezer = Result<void> (*)(const SandboxConfig&, SlotRules&, SandboxRecord, const LiveSandbox&);
  net::awaitable<Result<void>> move(std::string id, api::native::State from, api::native::State to, Freezer freezer);

  using ChangePolicy = std::function<Result<PolicyRecord>(NetworkPolicies& policies, const std::string& id,
                                                          const NetworkPolicies::Save& save)>;
  net::awaitable<Result<std::uint64_t>> change_policy(std::string id, ChangePolicy change);

  net::awaitable<Result<void>> refuse(EntryPtr entry);
  net::awaitable<void> end_idle_connections(EntryPtr entry);

  TaskGroup tasks_;
  SandboxTable table_;
  const SandboxContext context_;
  ImageService& images_;
  Endings endings_;
  SandboxSnapshots snapshots_;
  SandboxLogs logs_;
  http::Client client_;
  Creates creates_;
  std::function<Result<UniqueFd>(const std::string& id)> policy_api_;
};

}  // namespace osb::sandboxd
