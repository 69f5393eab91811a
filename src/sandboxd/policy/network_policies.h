#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/egress_link.h"
#include "base/clock.h"
#include "policy/matcher.h"
#include "sandboxd/network/firewall.h"
#include "sandboxd/policy/policy_record.h"

namespace osb::sandboxd {

// The network policies of this host's sandboxes: what the kernel enforces, and which requests of the egress process it
// may follow. That process reads traffic of sandboxes, so its requests are judged as those of an attacker: it can open
// public addresses of sandboxes that have a policy, and nothing else.
//
// Any thread. Calls block for a transaction of the firewall, about 0.1 ms.
class NetworkPolicies {
 public:
  static constexpr std::size_t kMostAddresses = 4096;  // open for one sandbox

  // `rules` outlives it.
  NetworkPolicies(PolicyRules& rules, const NetworkConfig& config, const Clock& clock = system_clock())
      : rules_(rules), config_(config), clock_(clock) {}

  // Called with the id after a sandbox was added or removed, from any thread. Before the first call of those.
  void on_change(std::function<void(const std::string& id)> changed) { changed_ = std::move(changed); }

  // Enforces the policy of a sandbox that has no process yet, or that was found again. Code::InvalidRequest: the policy
  // has too many networks for the kernel.
  enum class Sandbox : std::uint8_t { New, FoundAgain };
  Result<void> add(const std::string& id, unsigned slot, const PolicyRecord& record, Sandbox kind);
  // Lifts it, after the sandbox's last process has ended. An unknown id is fine.
  void remove(const std::string& id);

  // The operator's rules for all sandboxes. The error names the sandboxes whose old rules stay.
  Result<void> set_overlays(policy::Overlays overlays);

  // Enforces another policy, then stores it with `save`; when that fails the old one is enforced again. Returns the new
  // record. Code::Conflict: `revision` is not the one in force, or there is no such sandbox.
  using Save = std::function<Result<void>(const PolicyRecord&)>;
  Result<PolicyRecord> change(const std::string& id, std::uint64_t revision, policy::Policy policy, const Save& save);

  // Stores what a restart must know about the sandbox's credential vault, with `save`. Code::Conflict: there is no such
  // sandbox, or its connections are not intercepted.
  Result<PolicyRecord> set_vault(const std::string& id, std::optional<boost::json::object> vault, const Save& save);

  // Opens addresses that a name resolved to. Refuses addresses that a rule denies, private ones and those of the host's
  // sandboxes unless a rule allows the address, names that the policy denies, long lifetimes and too many addresses:
  // then it opens none. IPv6 addresses are passed over: sandboxes have none.
  api::egress::Answer open(const api::egress::OpenAddresses& request);

  struct State {
    std::string id;
    std::string address;
    PolicyRecord record;
  };
  std::optional<State> find(const std::string& id) const;
  std::vector<State> list() const;

  // Makes the kernel forget connections that were revoked: milliseconds. Call it after change() and set_overlays().
  void end_revoked_connections();

 private:
  using Time = std::chrono::steady_clock::time_point;
  // An address that names resolved to. Kept for a while after its end: connections to it go on.
  struct Learned {
    std::vector<std::string> names = {};
    Time until = {};
  };
  struct Entry {
    unsigned slot = 0;
    PolicyRecord record;
    SlotPolicy enforced;
    std::shared_ptr<const policy::Matcher> matcher = {};
    std::map<std::uint32_t, Learned> learned = {};
    bool names_lost = false;  // there may be connections to addresses whose names are not known here
  };

  Result<SlotPolicy> compile(const PolicyRecord& record, const policy::Overlays& overlays) const;
  Result<void> enforce(Entry& entry, const PolicyRecord& record, const policy::Overlays& overlays);
  std::optional<std::string> refusal(const Entry& entry, const api::egress::OpenAddresses& request) const;
  bool closed_range(std::uint32_t address) const;
  bool still_open(const Learned& learned, std::uint32_t address, const policy::Matcher& matcher) const;
  void learn(Entry& entry, const api::egress::OpenAddresses& request);
  State state_of(const std::string& id, const Entry& entry) const;

  PolicyRules& rules_;
  const NetworkConfig& config_;
  const Clock& clock_;
  std::function<void(const std::string&)> changed_ = [](const std::string&) {};
  mutable std::mutex mutex_;  // everything below
  policy::Overlays overlays_;
  std::map<std::string, Entry> entries_;
};

}  // namespace osb::sandboxd
