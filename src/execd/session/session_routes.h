#pragma once

#include "execd/session/session_service.h"
#include "http/router.h"

namespace osb::execd {

// POST /session, POST /session/{id}/run, DELETE /session/{id}. The service outlives the router. It is also an
// Interruptible for DELETE /command.
void add_session_routes(http::Router& router, SessionService& service);

}  // namespace osb::execd
