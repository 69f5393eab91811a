#pragma once

#include <vector>

#include "execd/command/command_service.h"
#include "execd/run/interruptible.h"
#include "http/router.h"

namespace osb::execd {

// POST and DELETE /command, GET /command/status/{id}, GET /command/{id}/logs and, additively, GET
// /command/{id}/events?after=N: the events behind number N, up to the command's end. DELETE asks `service` first, then
// the others. All of them outlive the router.
void add_command_routes(http::Router& router, CommandService& service, std::vector<Interruptible*> others = {});

// DELETE ?id=: the first of `all` that knows the id is interrupted. The same for /command and /code.
http::Handler interrupt_handler(std::vector<Interruptible*> all);

// The answer to a request to run something: its events, streamed. For a command in the background the start only.
http::Response command_response(const Command& command);

}  // namespace osb::execd
