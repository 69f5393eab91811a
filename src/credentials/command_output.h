#pragma once

#include <string>
#include <vector>

#include "async/net.h"
#include "base/error.h"
#include "vault/secret.h"

namespace osb::credentials {

// The output of an operator's command. It runs as the server's user, with PATH, HOME and LANG as its environment, no
// input, and its errors go nowhere: they may hold the secret. Code::Unavailable: it failed, or its output is no value.
// Cancelling it kills the command and everything in its process group.
net::awaitable<Result<vault::SecretText>> command_output(std::vector<std::string> command);

}  // namespace osb::credentials
