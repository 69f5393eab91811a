#pragma once

#include "execd/pty/pty_service.h"
#include "http/router.h"
#include "http/websocket.h"

namespace osb::execd {

// POST /pty, GET and DELETE /pty/{id}, GET /pty/{id}/ws. The service outlives the router.
void add_pty_routes(http::Router& router, PtyService& service, http::WebSocket::Options options = {});

}  // namespace osb::execd
