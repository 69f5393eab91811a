#pragma once

#include <chrono>

#include "http/router.h"

namespace osb::execd {

// GET /tunnel/{port} as a WebSocket: a TCP connection to that port of the sandbox's loopback, for protocols that are
// not HTTP. Binary messages are its bytes; the text {"type":"eof"} is the end of one direction, the other one goes on.
// The connection is closed with 1000 after both ends, with 1011 when the port broke off. A port that refuses is a 502,
// before the upgrade. Not in the published contract.
void add_tunnel_route(http::Router& router, std::chrono::milliseconds ping_interval = std::chrono::seconds(30));

}  // namespace osb::execd
