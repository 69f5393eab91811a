#pragma once

#include "execd/code/code_service.h"
#include "execd/command/command_service.h"
#include "http/router.h"

namespace osb::execd {

// POST /code, /code/context and /code/contexts. Code without a language and without a context is a shell command, which
// `commands` runs. DELETE /code is the same as DELETE /command and is added where everything that can be interrupted is
// known. Both services outlive the router.
void add_code_routes(http::Router& router, CodeService& service, CommandService& commands);

}  // namespace osb::execd
