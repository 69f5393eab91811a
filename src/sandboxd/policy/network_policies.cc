#include "sandboxd/policy/network_policies.h"

#include <algorithm>

#include "base/log.h"
#include "policy/changes.h"
#include "policy/lifetime.h"

namespace osb::sandboxd {
namespace {

using api::egress::Answer;
using api::egress::OpenAddress;
using api::egress::OpenAddresses;

constexpr std::size_t kMostNames = 8;  // remembered for an address
constexpr std::size_t kMostLearned = 2 * NetworkPolicies::kMostAddresses;

Answer refuse(const OpenAddresses& request, Answer::Problem problem, std::string message) {
  return {.seq = request.seq, .revision = 0, .problem = problem, .message = std::move(message)};
}

// In audit mode only the operator's deny rules hold.
policy::Policy enforced_policy(const PolicyRecord& record) {
  if (record.audit) return {.default_action = policy::Action::Allow};
  return record.policy;
}

policy::Overlays enforced_overlays(const PolicyRecord& record, const policy::Overlays& overlays) {
  if (record.audit) return {.deny = overlays.deny};
  return overlays;
}

std::vector<policy::Rule> rules_of_names(const PolicyRecord& record) {
  std::vector<policy::Rule> out;
  for (const policy::Rule& rule : record.policy.egress) {
    if (std::holds_alternative<policy::NameTarget>(rule.target)) out.push_back(rule);
  }
  return out;
}

// The rules for names are the old ones with allowed names before them, as a PATCH makes them.
bool only_allows_more_names(const PolicyRecord& before, const PolicyRecord& next) {
  if (before.policy.default_action != next.policy.default_action) return false;
  const auto old = rules_of_names(before), now = rules_of_names(next);
  if (now.size() < old.size()) return false;
  const auto added = now.end() - static_cast<std::ptrdiff_t>(old.size());
  return std::equal(added, now.end(), old.begin()) &&
         std::all_of(now.begin(), added, [](const policy::Rule& rule) { return rule.action == policy::Action::Allow; });
}

}  // namespace

Result<SlotPolicy> NetworkPolicies::compile(const PolicyRecord& record, const policy::Overlays& overlays) const {
  auto out = compile_policy(policy::address_sets(enforced_policy(record), enforced_overlays(record, overlays)));
  if (out) out->intercept = record.intercept;
  return out;
}

Result<void> NetworkPolicies::add(const std::string& id, unsigned slot, const PolicyRecord& record, Sandbox kind) {
  {
    const std::lock_guard lock(mutex_);
    auto compiled = compile(record, overlays_);
    if (!compiled) return Failure(compiled.error());
    if (auto done = rules_.set_policy(slot, {.policy = *compiled}); !done)
      return with_context("enforce the network policy", done.error());
    Entry entry{.slot = slot, .record = record, .enforced = std::move(*compiled)};
    entry.matcher = std::make_shared<policy::Matcher>(enforced_policy(record), enforced_overlays(record, overlays_));
    entry.names_lost = kind == Sandbox::FoundAgain;
    entries_.insert_or_assign(id, std::move(entry));
  }
  changed_(id);
  return {};
}

void NetworkPolicies::remove(const std::string& id) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end()) return;
    // A failure leaves the slot closed, and the slot's next policy replaces it.
    if (auto done = rules_.set_policy(found->second.slot, {}); !done)
      log_error("network policy not lifted", {{"id", id}, {"error", done.error().message}});
    entries_.erase(found);
  }
  changed_(id);
}

bool NetworkPolicies::closed_range(std::uint32_t address) const {
  return !is_public(IpAddress::v4(address)) || config_.subnet.contains(address);
}

bool NetworkPolicies::still_open(const Learned& learned, std::uint32_t address, const policy::Matcher& matcher) const {
  const IpAddress ip = IpAddress::v4(address);
  if (matcher.denies(ip) != nullptr || (closed_range(address) && matcher.allows(ip) == nullptr)) return false;
  return std::ranges::any_of(learned.names, [&](const std::string& name) { return matcher.name(name).allowed(); });
}

// The kernel's part of a change; the caller stores the record.
Result<void> NetworkPolicies::enforce(Entry& entry, const PolicyRecord& record, const policy::Overlays& overlays) {
  auto compiled = compile(record, overlays);
  if (!compiled) return Failure(compiled.error());
  const auto matcher = std::make_shared<policy::Matcher>(enforced_policy(record), enforced_overlays(record, overlays));
  PolicyChange change{.policy = *compiled};
  std::map<std::uint32_t, Learned> kept;
  bool revoked = false;
  for (auto& [address, learned] : entry.learned) {
    if (still_open(learned, address, *matcher)) {
      kept.emplace(address, learned);
      change.kept.push_back(address);
    } else {
      revoked = true;
    }
  }
  const bool keeps_lost = &overlays == &overlays_ && only_allows_more_names(entry.record, record);
  for (const std::uint32_t address : rules_.opened(entry.slot)) {
    const bool lost = entry.names_lost && !entry.learned.contains(address);
    if (!kept.contains(address) && !(lost && keeps_lost && !denies(*compiled, address)))
      change.closed.push_back(address);
  }
  change.narrower =
      revoked || (entry.names_lost && !keeps_lost) || !change.closed.empty() || narrows(entry.enforced, *compiled);
  if (auto done = rules_.set_policy(entry.slot, std::move(change)); !done) return done;
  entry.enforced = std::move(*compiled);
  entry.matcher = matcher;
  entry.learned = std::move(kept);
  entry.names_lost = entry.names_lost && keeps_lost;
  return {};
}

Result<void> NetworkPolicies::set_overlays(policy::Overlays overlays) {
  const std::lock_guard lock(mutex_);
  std::string failed;
  for (auto& [id, entry] : entries_) {
    if (auto done = enforce(entry, entry.record, overlays); !done)
      failed += (failed.empty() ? "" : "; ") + id + ": " + done.error().message;
  }
  overlays_ = std::move(overlays);
  if (!failed.empty()) return fail(Code::Internal, failed);
  return {};
}

Result<PolicyRecord> NetworkPolicies::change(const std::string& id, std::uint64_t revision, policy::Policy policy,
                                             const Save& save) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return fail(Code::Conflict, "sandbox " + id + " has no network policy (any more)");
  Entry& entry = found->second;
  if (entry.record.revision != revision) {
    return fail(Code::Conflict,
                "revision " + std::to_string(entry.record.revision) + " is in force, not " + std::to_string(revision));
  }
  if (policy.egress.size() > policy::kDefaultMaxRules) {
    return fail(Code::TooLarge, "the policy has " + std::to_string(policy.egress.size()) + " rules; at most " +
                                    std::to_string(policy::kDefaultMaxRules) + " are allowed");
  }
  PolicyRecord next = entry.record;
  next.policy = std::move(policy);
  next.revision = revision + 1;
  if (auto done = enforce(entry, next, overlays_); !done) return Failure(done.error());
  if (auto saved = save(next); !saved) {
    if (auto back = enforce(entry, entry.record, overlays_); !back)
      log_error("network policy differs from its record", {{"id", id}, {"error", back.error().message}});
    return with_context("store the network policy", saved.error());
  }
  entry.record = next;
  return next;
}

Result<PolicyRecord> NetworkPolicies::set_vault(const std::string& id, std::optional<boost::json::object> vault,
                                                const Save& save) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end() || !found->second.record.intercept)
    return fail(Code::Conflict, "sandbox " + id + " has no credential vault");
  PolicyRecord next = found->second.record;
  next.vault = std::move(vault);
  if (auto saved = save(next); !saved) return with_context("store the credential vault", saved.error());
  found->second.record = next;
  return next;
}

std::optional<std::string> NetworkPolicies::refusal(const Entry& entry, const OpenAddresses& request) const {
  for (const OpenAddress& each : request.addresses) {
    if (!each.name.empty() && !entry.matcher->name(each.name).allowed()) return "the policy denies the name";
    if (each.address.v6) continue;
    if (entry.matcher->denies(each.address) != nullptr) return "a rule denies " + format_ip_address(each.address);
    if (closed_range(each.address.to_v4()) && entry.matcher->allows(each.address) == nullptr)
      return format_ip_address(each.address) + " is not an address of the internet, and no rule allows it";
  }
  return std::nullopt;
}

Answer NetworkPolicies::open(const OpenAddresses& request) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(request.id);
  if (found == entries_.end()) return refuse(request, Answer::Problem::Stale, "no such sandbox");
  Entry& entry = found->second;
  if (entry.record.revision != request.revision)
    return refuse(request, Answer::Problem::Stale, "another revision is in force");
  std::vector<OpenedAddress> addresses;
  std::size_t fresh = 0;
  for (const OpenAddress& each : request.addresses) {
    if (each.seconds == 0 || std::chrono::seconds(each.seconds) > policy::kLongestLifetime)
      return refuse(request, Answer::Problem::Limit, "a lifetime is not from 1 to 360 seconds");
    if (each.address.v6) continue;
    addresses.push_back({.address = each.address.to_v4(), .lifetime = std::chrono::seconds(each.seconds)});
    fresh += entry.learned.contains(addresses.back().address) ? 0U : 1U;
  }
  if (auto why = refusal(entry, request)) return refuse(request, Answer::Problem::Refused, std::move(*why));
  if (fresh > 0) {
    const Time now = clock_.steady_now();
    const auto open = static_cast<std::size_t>(
        std::ranges::count_if(entry.learned, [&](const auto& each) { return each.second.until > now; }));
    if (open + fresh > kMostAddresses)
      return refuse(request, Answer::Problem::Limit, "4096 addresses are open already");
  }
  if (auto done = rules_.open_addresses(entry.slot, addresses); !done) {
    log_error("address not opened", {{"id", request.id}, {"error", done.error().message}});
    return refuse(request, Answer::Problem::Internal, done.error().message);
  }
  learn(entry, request);
  return {.seq = request.seq, .revision = request.revision};
}

void NetworkPolicies::learn(Entry& entry, const OpenAddresses& request) {
  const Time now = clock_.steady_now();
  for (const OpenAddress& each : request.addresses) {
    if (each.address.v6) continue;
    Learned& learned = entry.learned[each.address.to_v4()];
    learned.until = std::max(learned.until, now + std::chrono::seconds(each.seconds));
    if (each.name.empty() || std::ranges::find(learned.names, each.name) != learned.names.end()) continue;
    if (learned.names.size() == kMostNames) learned.names.erase(learned.names.begin());
    learned.names.push_back(each.name);
  }
  if (entry.learned.size() <= kMostLearned) return;
  // Connections to them end with the next change that is narrower.
  std::erase_if(entry.learned, [&](const auto& each) { return each.second.until <= now; });
  entry.names_lost = true;
}

NetworkPolicies::State NetworkPolicies::state_of(const std::string& id, const Entry& entry) const {
  return {.id = id, .address = format_ipv4(config_.address(entry.slot)), .record = entry.record};
}

std::optional<NetworkPolicies::State> NetworkPolicies::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return std::nullopt;
  return state_of(id, found->second);
}

std::vector<NetworkPolicies::State> NetworkPolicies::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<State> out;
  for (const auto& [id, entry] : entries_) out.push_back(state_of(id, entry));
  return out;
}

void NetworkPolicies::end_revoked_connections() {
  const auto ended = rules_.end_revoked_connections();
  if (!ended) {
    // The kernel still judges each of their packets.
    log_error("revoked connections not forgotten", {{"error", ended.error().message}});
  } else if (*ended > 0) {
    log_info("revoked connections ended", {{"count", *ended}});
  }
}

}  // namespace osb::sandboxd
