#pragma once

#include "http/message.h"
#include "taskexecutor/tasks.h"

namespace osb::taskexecutor {

// The API of the executor. Every list of tasks carries its version in a header; GET /getTasks?after=VERSION answers
// when the tasks have another one. `tasks` outlives the handler.
http::Handler make_handler(Tasks& tasks);

}  // namespace osb::taskexecutor
