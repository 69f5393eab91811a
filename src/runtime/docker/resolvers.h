#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace osb::runtime {

// Resolvers that a container can ask, of the text of a resolv.conf: those that are not loopback, at most three.
std::vector<std::string> usable_resolvers(std::string_view resolv_conf);

// Those of this machine. Where systemd-resolved answers on loopback, the ones that it asks itself.
std::vector<std::string> resolvers_of_this_machine();

}  // namespace osb::runtime
