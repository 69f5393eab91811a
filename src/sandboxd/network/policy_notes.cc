#include "sandboxd/network/policy_notes.h"

#include <algorithm>
#include <netinet/in.h>

namespace osb::sandboxd {
namespace {

constexpr std::chrono::seconds kSlack(1);  // a time that is longer by less is not worth a transaction
// Longer than the kernel needs to forget the connections that are not permitted.
constexpr std::chrono::seconds kKeptFor(60);
constexpr std::uint16_t kNames = 53;
constexpr std::uint16_t kNamesOverTls = 853, kHttps = 443;

std::uint32_t address_at(std::span<const std::uint8_t> key, std::size_t at) {
  return static_cast<std::uint32_t>(key[at]) << 24 | static_cast<std::uint32_t>(key[at + 1]) << 16 |
         static_cast<std::uint32_t>(key[at + 2]) << 8 | key[at + 3];
}

bool contains(const SlotPolicy::Network& network, std::uint32_t address) {
  return network.length == 0 || ((network.base ^ address) >> (32 - network.length)) == 0;
}

bool in_networks(const std::vector<SlotPolicy::Network>& networks, const kernel::TrackedFlow& flow) {
  return std::ranges::any_of(networks, [&](const SlotPolicy::Network& each) {
    const bool port = each.tcp_port == 0 || (flow.protocol == IPPROTO_TCP && flow.destination_port == each.tcp_port);
    return port && contains(each, flow.destination);
  });
}

bool has(const PolicyNotes::Addresses& addresses, std::uint32_t address, PolicyNotes::Time now) {
  const auto found = addresses.find(address);
  return found != addresses.end() && found->second > now;
}

// Those that are not over, with the time that is left.
std::vector<OpenedAddress> living(const PolicyNotes::Addresses& addresses, PolicyNotes::Time now) {
  std::vector<OpenedAddress> out;
  for (const auto& [address, end] : addresses) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - now);
    if (left.count() > 0) out.push_back({.address = address, .lifetime = left});
  }
  return out;
}

}  // namespace

PolicyNotes::Slot PolicyNotes::get(unsigned slot) const {
  const auto found = slots_.find(slot);
  return found != slots_.end() ? found->second : Slot();
}

void PolicyNotes::restore(unsigned slot, Slot before) {
  if (!before.policy) {
    slots_.erase(slot);
  } else {
    slots_[slot] = std::move(before);
  }
}

void PolicyNotes::change(kernel::NftBatch& batch, unsigned slot, PolicyChange next, Time now) {
  const auto found = slots_.find(slot);
  if (found == slots_.end() && !next.policy) return;
  Slot& notes = slots_[slot];
  const std::uint32_t address = config_.address(slot);
  std::vector<std::uint32_t> gone;
  std::erase_if(notes.opened, [&](const auto& each) {
    if (next.policy && std::ranges::find(next.closed, each.first) == next.closed.end()) return false;
    gone.push_back(each.first);
    return true;
  });
  close_addresses(batch, address, gone);
  change_policy(batch, address, notes.policy ? &*notes.policy : nullptr, next.policy ? &*next.policy : nullptr);
  if (!next.policy && notes.judged_since != 0) judge_again(batch, address, false);
  notes.policy = std::move(next.policy);
  if (!notes.policy) {
    slots_.erase(slot);
    return;
  }
  if (!next.narrower) return;
  if (notes.judged_since == 0) judge_again(batch, address, true);
  notes.judged_since = ++changes_;
  notes.kept.clear();
  for (const std::uint32_t each : next.kept) notes.kept[each] = now + kKeptFor;
  keep_connections(batch, address, living(notes.kept, now));
}

void PolicyNotes::open(kernel::NftBatch& batch, unsigned slot, std::span<const OpenedAddress> addresses, Time now) {
  const auto found = slots_.find(slot);
  if (found == slots_.end()) return;
  Addresses& opened = found->second.opened;
  std::erase_if(opened, [&](const auto& each) { return each.second + kSlack < now; });
  std::vector<OpenedAddress> fresh, known;
  for (const OpenedAddress& each : addresses) {
    const auto [at, is_new] = opened.try_emplace(each.address, now + each.lifetime);
    if (is_new) {
      fresh.push_back(each);
    } else if (at->second + kSlack < now + each.lifetime) {
      at->second = now + each.lifetime;
      known.push_back(each);
    }
  }
  open_addresses(batch, config_.address(slot), fresh, false);
  open_addresses(batch, config_.address(slot), known, true);
}

// The same order as in the rules.
bool PolicyNotes::permits(const kernel::TrackedFlow& flow, Time now) const {
  if (!config_.subnet.contains(flow.source) || flow.source < config_.address(0)) return true;
  const auto found = slots_.find(flow.source - config_.address(0));
  if (found == slots_.end()) return true;
  const Slot& notes = found->second;
  const bool ports = flow.protocol == IPPROTO_TCP || flow.protocol == IPPROTO_UDP;
  if (ports && flow.destination_port == kNames) return true;  // led to the egress process
  if (ports && flow.destination_port == kNamesOverTls) return false;
  if (notes.policy->intercept && flow.protocol == IPPROTO_UDP && flow.destination_port == kHttps) return false;
  if (in_networks(notes.policy->deny, flow)) return false;
  if (ports && has(notes.opened, flow.destination, now)) return true;
  if (has(notes.kept, flow.destination, now)) return true;
  return in_networks(notes.policy->allow, flow) || notes.policy->default_allow;
}

PolicyNotes::Judged PolicyNotes::judged() const {
  Judged out;
  for (const auto& [slot, notes] : slots_) {
    if (notes.judged_since != 0) out[slot] = notes.judged_since;
  }
  return out;
}

void PolicyNotes::end_judging(kernel::NftBatch& batch, const Judged& done) {
  for (const auto& [slot, since] : done) {
    const auto found = slots_.find(slot);
    if (found == slots_.end() || found->second.judged_since != since) continue;
    judge_again(batch, config_.address(slot), false);
    found->second.judged_since = 0;
  }
}

PolicyNotes::Slot* PolicyNotes::find(std::uint32_t address) {
  if (!config_.subnet.contains(address) || address < config_.address(0)) return nullptr;
  const auto found = slots_.find(address - config_.address(0));
  return found != slots_.end() ? &found->second : nullptr;
}

void PolicyNotes::adopt(std::span<const kernel::NftTimedKey> opened, Time now) {
  for (const kernel::NftTimedKey& element : opened) {
    if (element.key.size() != 8 || element.left.count() <= 0) continue;
    Slot* const notes = find(address_at(element.key, 0));
    const std::uint32_t address = address_at(element.key, 4);
    if (notes != nullptr && !denies(*notes->policy, address)) notes->opened[address] = now + element.left;
  }
}

void PolicyNotes::adopt_judged(std::span<const std::vector<std::uint8_t>> addresses) {
  for (const std::vector<std::uint8_t>& key : addresses) {
    if (key.size() != 4) continue;
    if (Slot* const notes = find(address_at(key, 0))) notes->judged_since = ++changes_;
  }
}

void PolicyNotes::put_all(kernel::NftBatch& batch, Time now) {
  for (auto& [slot, notes] : slots_) {
    const std::uint32_t address = config_.address(slot);
    change_policy(batch, address, nullptr, &*notes.policy);
    if (notes.judged_since != 0) judge_again(batch, address, true);
    std::erase_if(notes.opened, [&](const auto& each) { return each.second <= now; });
    open_addresses(batch, address, living(notes.opened, now), false);
    keep_connections(batch, address, living(notes.kept, now));
  }
}

bool denies(const SlotPolicy& policy, std::uint32_t address) {
  return std::ranges::any_of(
      policy.deny, [&](const SlotPolicy::Network& each) { return each.tcp_port == 0 && contains(each, address); });
}

bool narrows(const SlotPolicy& before, const SlotPolicy& next) {
  return (before.default_allow && !next.default_allow) || !std::ranges::includes(before.deny, next.deny) ||
         !std::ranges::includes(next.allow, before.allow);
}

}  // namespace osb::sandboxd
