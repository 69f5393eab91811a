#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "http/message.h"

namespace osb::server {

// Errors as the lifecycle contract wants them: {"code","message"}, with `detail` where a schema was broken and
// Retry-After where trying again later makes sense.
http::Response refusal(const Error& error);

// The query of a request as decoded pairs.
std::vector<std::pair<std::string, std::string>> query_pairs(const http::Request& request);

// A JSON body; longer ones are 413.
net::awaitable<Result<std::string>> read_body(http::Request& request);

}  // namespace osb::server
