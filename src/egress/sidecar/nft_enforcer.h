#pragma once

#include <memory>
#include <string>

#include "async/blocking_pool.h"
#include "egress/enforcer.h"
#include "egress/sandbox/sandboxes.h"
#include "egress/sidecar/packet_table.h"
#include "egress/sidecar/policy_file.h"
#include "kernel/netlink.h"

namespace osb::egress {

// Keeps the table of the sidecar's own network namespace. One sandbox.
class NftEnforcer final : public Enforcer {
 public:
  static constexpr std::size_t kMostLearned = 4096;

  // `fixed` has the parts that no policy changes.
  NftEnforcer(kernel::NetlinkSocket netfilter, Sandboxes& sandboxes, PolicyFile file, BlockingPool& pool,
              PacketTable fixed, std::string id, std::string mode);

  // The first table, for a sandbox that is in Sandboxes already.
  Result<void> install();
  // After new overlays: they are in Sandboxes already.
  Result<void> apply_overlays();
  // Nothing new leaves any more.
  Result<void> close_all();

  void open(const std::string& id, std::uint64_t revision, std::vector<api::egress::OpenAddress> addresses,
            Done done) override;
  net::awaitable<Result<void>> set_policy(std::string id, std::uint64_t revision, policy::Policy policy) override;
  std::string_view mode() const override { return mode_; }

 private:
  Result<void> enforce(const policy::Policy& policy);
  Result<void> learn(const Sandbox& sandbox, const std::vector<api::egress::OpenAddress>& addresses);
  void forget_revoked();

  kernel::NetlinkSocket netfilter_;
  Sandboxes& sandboxes_;
  PolicyFile file_;
  BlockingPool& pool_;
  PacketTable fixed_;
  std::string id_;
  std::string mode_;
};

}  // namespace osb::egress
