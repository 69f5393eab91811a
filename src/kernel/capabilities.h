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
std::vector<std::string> capability_names(CapabilitySet set);
// All that this kernel knows (/proc/sys/kernel/cap_last_cap).
CapabilitySet all_capabilities();

// The capabilities of a process in /proc/PID/status.
struct ProcessCapabilities {
  CapabilitySet effective = 0, permitted = 0, inheritable = 0, bounding = 0, ambient = 0;
};
Result<ProcessCapabilities> capabilities_of(int pid);

}  // namespace osb::kernel
