#pragma once

#include "http/transport.h"

namespace osb::http {

// The end of a connection whose peer may still be sending: unread input would turn a close into a reset, which can
// destroy the last answer on its way. Sends end-of-stream, then takes in and drops what comes until the peer has read
// the end, for at most two seconds. The caller closes.
net::awaitable<void> linger(Transport& transport);

}  // namespace osb::http
