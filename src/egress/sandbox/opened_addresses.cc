#include "egress/sandbox/opened_addresses.h"

#include <algorithm>

#include "policy/lifetime.h"

namespace osb::egress {
namespace {

constexpr std::chrono::seconds kSpare{30};

}  // namespace

bool OpenedAddresses::covers(const IpAddress& address, std::uint32_t ttl, SteadyTime now) const {
  const auto found = open_.find(address);
  if (found == open_.end()) return false;
  const auto longest = policy::kLongestLifetime - policy::kShortestLifetime;
  return found->second.until >= now + std::min(std::chrono::seconds(ttl), longest) + kSpare;
}

void OpenedAddresses::opened(const IpAddress& address, std::chrono::seconds lifetime, std::string_view name,
                             SteadyTime now) {
  if (open_.size() >= sweep_at_) sweep(now);
  Open& open = open_[address];
  open.until = std::max(open.until, now + lifetime);
  if (std::ranges::find(open.names, name) != open.names.end()) return;
  if (open.names.size() >= kMaxNames) open.names.erase(open.names.begin());
  open.names.emplace_back(name);
}

void OpenedAddresses::sweep(SteadyTime now) {
  std::erase_if(open_, [&](const auto& each) { return each.second.until <= now; });
  sweep_at_ = std::max(kSweepAt, open_.size() * 2);
}

std::vector<std::pair<api::egress::OpenAddress, std::string>> OpenedAddresses::allowed(const policy::Matcher& matcher,
                                                                                       SteadyTime now) const {
  std::vector<std::pair<api::egress::OpenAddress, std::string>> out;
  for (const auto& [address, open] : open_) {
    const auto left = std::chrono::duration_cast<std::chrono::seconds>(open.until - now);
    if (left.count() <= 0 || matcher.denies(address) != nullptr) continue;
    const auto name = std::ranges::find_if(open.names, [&](const auto& each) { return matcher.name(each).allowed(); });
    if (name == open.names.end()) continue;
    out.push_back({{address, static_cast<std::uint32_t>(left.count())}, *name});
  }
  return out;
}

std::vector<std::pair<api::egress::OpenAddress, std::string>> OpenedAddresses::take_allowed(
    const policy::Matcher& matcher, SteadyTime now) {
  auto out = allowed(matcher, now);
  open_.clear();
  return out;
}

}  // namespace osb::egress
