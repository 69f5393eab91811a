#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "http/transport.h"

namespace osb::http {

// Waits until a socket whose connect() is under way is connected. `name` is for errors.
net::awaitable<Result<std::unique_ptr<Transport>>> finish_connect(UniqueFd socket, std::string name,
                                                                  std::chrono::milliseconds timeout);

}  // namespace osb::http
