#pragma once

#include <string>

#include "base/error.h"

namespace osb::cli {

struct HttpAnswer {
  int status = 0;
  std::string body;
};

// One GET without a key, for questions that are not part of the API: /health/ready, /openapi.json. `url` begins with
// http:// or https://. Waits ten seconds at most.
Result<HttpAnswer> http_get(const std::string& url);
// The same with origin and target apart; the origin may be "unix:/path".
Result<HttpAnswer> http_get(const std::string& origin, const std::string& target);

}  // namespace osb::cli
