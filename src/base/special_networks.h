#pragma once

#include <vector>

#include "base/ip_address.h"

namespace osb {

// The IPv4 networks whose addresses are not public: is_public().
std::vector<IpPrefix> networks_not_public();

}  // namespace osb
