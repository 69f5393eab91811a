#pragma once

#include <functional>

#include "api/execd_requests.h"
#include "execd/code/code_service.h"
#include "http/router.h"

namespace osb::execd {

// Starts a shell command and answers with its events.
using CommandRunner = std::function<Result<http::Response>(const api::RunCommand&)>;

// POST /code, /code/context and /code/contexts. Code without a language and without a context is a shell command, which
// `run_command` starts. DELETE /code is the same as DELETE /command and is added where everything that can be
// interrupted is known. The service outlives the router.
void add_code_routes(http::Router& router, CodeService& service, CommandRunner run_command);

}  // namespace osb::execd
