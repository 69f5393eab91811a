#pragma once

namespace osb::sys {

// Tells systemd that a service of Type=notify is ready: one datagram to $NOTIFY_SOCKET. Does nothing without it.
void notify_ready();

}  // namespace osb::sys
