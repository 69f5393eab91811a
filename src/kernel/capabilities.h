#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace osb::kernel {

// A set of capabilities, bit N is capability N.
using CapabilitySet = std::uint64_t;

// "CAP_NET_ADMIN", "net_admin", any case.
std::optional<int> capability_number(std::string_view name);
// "CAP_NET_ADMIN"; "CAP_63" for a number without a name.
std::string capability_name(int number);
// Code::InvalidRequest names the word that is none. "ALL" is every one this kernel has.
Result<CapabilitySet> parse_capabilities(const std::vector<std::string>& names);
std::vector<std::string> capability_names(CapabilitySet set);
// All that this kernel knows (/proc/sys/kernel/cap_last_cap).
CapabilitySet all_capabilities();

// For a child between clone and exec: system calls only, no allocation; 0 or an errno.

// Takes everything out of the bounding set that is not in `keep`, for good. Wants CAP_SETPCAP. `last` is the kernel's
// highest capability, found out before (highest bit of all_capabilities()).
int limit_bounding_set(CapabilitySet keep, int last) noexcept;
// Effective, permitted and inheritable of the calling thread.
int set_capabilities(CapabilitySet effective, CapabilitySet permitted, CapabilitySet inheritable) noexcept;
// Exactly `set` (which must be permitted and inheritable) survives exec of a plain file by a user who is not root.
int set_ambient_capabilities(CapabilitySet set) noexcept;

// What /proc/PID/status says of a process.
struct ProcessCapabilities {
  CapabilitySet effective = 0, permitted = 0, inheritable = 0, bounding = 0, ambient = 0;
};
Result<ProcessCapabilities> capabilities_of(int pid);

}  // namespace osb::kernel
