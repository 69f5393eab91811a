#pragma once

#include "base/error.h"
#include "sandboxd/network/slot_pool.h"

namespace osb::sandboxd {

// Slots need no ARP: both ends of their link know each other. A network stack that is not the kernel's (gVisor, a
// virtual machine) takes over addresses and routes of the namespace but not that knowledge, and asks for the gateway:
// from now on the host's end answers. The sandbox's own ARP claims still have no effect, because the host's entry for
// it is permanent. For slots of Bridge mode that are not recycled.
Result<void> answer_arp(const Slot& slot);

}  // namespace osb::sandboxd
