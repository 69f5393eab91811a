#pragma once

#include <chrono>

#include "base/error.h"
#include "config/server_config.h"

namespace osb::config {

// A server without an API key lets everyone who reaches it run code. It starts only after a confirmation:
// OPENSANDBOX_INSECURE_SERVER=YES (exactly), or YES typed within 30 seconds if stdin is a terminal.
enum class KeyGuard {
  Protected,     // there is a key
  Acknowledged,  // there is none, and the user has confirmed it: warn
};

// Code::Forbidden otherwise; the message names the variable. `stdin_fd` and `prompt_fd` are 0 and 2 but in tests.
Result<KeyGuard> check_api_key(const ServerConfig& config, const Environment& environment, int stdin_fd = 0,
                               int prompt_fd = 2, std::chrono::milliseconds patience = std::chrono::seconds(30));

}  // namespace osb::config
