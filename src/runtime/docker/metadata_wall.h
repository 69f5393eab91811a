#pragma once

#include <string>

#include "base/error.h"

namespace osb::runtime {

// Closes the metadata services of clouds, and all of IPv6, to the containers on a bridge of this machine, by a table of
// nftables before the engine's own translation. The table is named after the bridge; one that exists is made anew, or
// removed if not `closed`. Needs root. Code::NotFound: this network namespace has no such bridge. Blocks for about a
// millisecond.
Result<void> set_metadata_wall(const std::string& bridge, bool closed);

}  // namespace osb::runtime
