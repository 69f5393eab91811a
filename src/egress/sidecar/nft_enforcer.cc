#include "egress/sidecar/nft_enforcer.h"

#include <algorithm>
#include <ifaddrs.h>
#include <iterator>
#include <memory>
#include <netinet/in.h>
#include <set>

#include "base/log.h"
#include "base/special_networks.h"
#include "kernel/netlink_conntrack.h"

namespace osb::egress {
namespace {

// Of this network namespace, IPv4, host byte order.
std::set<std::uint32_t> own_addresses() {
  std::set<std::uint32_t> out;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) < 0) return out;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> holder(list, &::freeifaddrs);
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    out.insert(ntohl(reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr.s_addr));
  }
  return out;
}

// The addresses that packets may go to. In audit mode only the operator's deny rules close something; networks that are
// not public are closed too (PacketTable::closed), unless a rule allows them.
policy::AddressSets packet_sets(const policy::Policy& policy, const policy::Overlays& overlays, bool audit) {
  if (!audit) return policy::address_sets(policy, overlays);
  policy::Policy allowed;
  std::ranges::copy_if(policy.egress, std::back_inserter(allowed.egress),
                       [](const policy::Rule& rule) { return rule.action == policy::Action::Allow; });
  policy::AddressSets out = policy::address_sets(allowed, overlays);
  out.default_action = policy::Action::Allow;
  return out;
}

}  // namespace

NftEnforcer::NftEnforcer(kernel::NetlinkSocket netfilter, Sandboxes& sandboxes, PolicyFile file, BlockingPool& pool,
                         PacketTable fixed, std::string id, std::string mode)
    : netfilter_(std::move(netfilter)),
      sandboxes_(sandboxes),
      file_(std::move(file)),
      pool_(pool),
      fixed_(std::move(fixed)),
      id_(std::move(id)),
      mode_(std::move(mode)) {}

Result<void> NftEnforcer::enforce(const policy::Policy& policy) {
  const SandboxPtr sandbox = sandboxes_.by_id(id_);
  PacketTable table = fixed_;
  table.sets = packet_sets(policy, sandboxes_.overlays(), sandbox->audit);
  if (sandbox->audit) table.closed = networks_not_public();
  const policy::Matcher matcher(policy, sandboxes_.overlays());
  for (auto& [address, name] : sandbox->opened.allowed(matcher, sandboxes_.clock().steady_now())) {
    table.learned.push_back(address);
  }
  kernel::NftBatch batch(kTable);
  put_table(batch, table);
  return batch.commit(netfilter_);
}

// Connections that a process before this one permitted go on.
Result<void> NftEnforcer::install() { return enforce(sandboxes_.by_id(id_)->policy); }

Result<void> NftEnforcer::apply_overlays() {
  if (auto done = install(); !done) return done;
  forget_revoked();
  return {};
}

Result<void> NftEnforcer::close_all() {
  kernel::NftBatch batch(kTable);
  put_closed_table(batch, fixed_);
  return batch.commit(netfilter_);
}

Result<void> NftEnforcer::learn(const Sandbox& sandbox, const std::vector<api::egress::OpenAddress>& addresses) {
  if (sandbox.opened.size() + addresses.size() > kMostLearned) {
    return fail(Code::Exhausted, std::to_string(kMostLearned) + " addresses are open already");
  }
  const bool known =
      std::ranges::any_of(addresses, [&](const auto& each) { return sandbox.opened.contains(each.address); });
  kernel::NftBatch batch(kTable);
  learn_addresses(batch, addresses, known);
  return batch.commit(netfilter_);
}

void NftEnforcer::open(const std::string& id, std::uint64_t revision, std::vector<api::egress::OpenAddress> addresses,
                       Done done) {
  const SandboxPtr sandbox = sandboxes_.by_id(id);
  if (!sandbox || sandbox->revision != revision) return done(fail(Code::Conflict, "the policy has changed meanwhile"));
  done(learn(*sandbox, addresses));
}

net::awaitable<Result<void>> NftEnforcer::set_policy(std::string id, std::uint64_t revision, policy::Policy policy) {
  const SandboxPtr sandbox = sandboxes_.by_id(id);
  if (!sandbox || sandbox->revision != revision) co_return fail(Code::Conflict, "the policy has changed meanwhile");
  if (auto enforced = enforce(policy); !enforced) co_return enforced;
  // Answers in flight belong to the old policy from here on: their addresses must not open again.
  const policy::Policy old = sandbox->policy;
  sandboxes_.set(id, sandbox->address, revision + 1, policy, sandbox->token, sandbox->audit);
  if (auto saved = co_await pool_.run([&] { return file_.save(policy); }); !saved) {
    if (auto back = enforce(old); !back)
      log_error("the old policy cannot be put back", {{"error", back.error().message}});
    sandboxes_.set(id, sandbox->address, revision + 2, old, sandbox->token, sandbox->audit);
    co_return saved;
  }
  forget_revoked();
  co_return Result<void>();
}

// Connections that exist pass the table without a look at it: those that it would refuse now have to be forgotten.
// Their next packet is judged like a first one.
void NftEnforcer::forget_revoked() {
  const SandboxPtr sandbox = sandboxes_.by_id(id_);
  const policy::Policy open{.default_action = policy::Action::Allow};
  const policy::Overlays denied{.deny = sandboxes_.overlays().deny};
  const policy::Matcher audited(open, denied);
  const policy::Matcher& matcher = sandbox->audit ? audited : *sandbox->matcher;
  const SteadyTime now = sandboxes_.clock().steady_now();
  const std::set<std::uint32_t> own = own_addresses();
  const auto gone = kernel::forget_flows(netfilter_, [&](const kernel::TrackedFlow& flow) {
    const IpAddress to = IpAddress::v4(flow.destination);
    // Connections from outside, to the API and to published ports, are none of the policy's.
    if ((flow.destination >> 24) == 127 || own.contains(flow.destination)) return false;
    for (const Endpoint& server : fixed_.upstreams) {
      if (server.address == to && server.port == flow.destination_port) return false;
    }
    const auto transport = flow.protocol == IPPROTO_TCP ? policy::Transport::Tcp : policy::Transport::Other;
    const policy::Verdict verdict = matcher.address(to, transport, flow.destination_port);
    if (verdict.rule != nullptr && !verdict.allowed()) return true;
    return !verdict.allowed() && !sandbox->opened.covers(to, 0, now - std::chrono::seconds(30));
  });
  if (!gone) log_error("connections of revoked targets go on", {{"error", gone.error().message}});
}

}  // namespace osb::egress
