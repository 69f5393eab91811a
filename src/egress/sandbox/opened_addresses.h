#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/egress_link.h"
#include "base/ip_address.h"
#include "egress/sandbox/budget.h"
#include "policy/matcher.h"

namespace osb::egress {

struct IpAddressHash {
  std::size_t operator()(const IpAddress& address) const {
    return std::hash<std::string_view>()(
        {reinterpret_cast<const char*>(address.bytes.data()), address.v6 ? std::size_t{16} : std::size_t{4}});
  }
};

// The addresses that are open for a sandbox because a name resolved to them, and until when.
class OpenedAddresses {
 public:
  // An address that a sandbox may use for `ttl` seconds more has to stay open a little longer.
  bool covers(const IpAddress& address, std::uint32_t ttl, SteadyTime now) const;

  void opened(const IpAddress& address, std::chrono::seconds lifetime, std::string_view name, SteadyTime now);

  // Those whose names a policy allows, with the time that is left to them.
  std::vector<std::pair<api::egress::OpenAddress, std::string>> allowed(const policy::Matcher& matcher,
                                                                        SteadyTime now) const;
  // After a change of the policy: forgets all, and returns allowed(). The caller opens them again, so that programs
  // that hold an address go on.
  std::vector<std::pair<api::egress::OpenAddress, std::string>> take_allowed(const policy::Matcher& matcher,
                                                                             SteadyTime now);

  // Open in the kernel at this moment.
  bool is_open(const IpAddress& address, SteadyTime now) const {
    const auto found = open_.find(address);
    return found != open_.end() && found->second.until > now;
  }
  // Opened before; its time may be over.
  bool contains(const IpAddress& address) const { return open_.contains(address); }
  std::size_t size() const { return open_.size(); }

 private:
  static constexpr std::size_t kMaxNames = 8;  // of one address that are remembered
  static constexpr std::size_t kSweepAt = 1024;
  struct Open {
    SteadyTime until{};
    std::vector<std::string> names;
  };
  void sweep(SteadyTime now);

  std::unordered_map<IpAddress, Open, IpAddressHash> open_;
  std::size_t sweep_at_ = kSweepAt;
};

}  // namespace osb::egress
