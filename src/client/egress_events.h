#pragma once

#include <functional>
#include <string>

#include "client/json.h"
#include "client/sandbox_state.h"

namespace opensandbox::async {

// Reads an event stream of the egress API; calls `take` with each event's object until it returns false or the stream
// ends.
Task<void> follow_egress(SandboxPtr sandbox, std::string target, std::function<Task<bool>(json::object)> take);

// The objects in the array `key` of an answer.
Task<std::vector<json::object>> list_egress(SandboxPtr sandbox, std::string target, std::string key);

}  // namespace opensandbox::async
