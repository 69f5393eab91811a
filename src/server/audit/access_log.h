#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/rotating_file.h"
#include "http/server.h"

namespace osb::server {

// One JSON object per request, in a file of its own:
// {"time","method","path","status","bytes","ms","peer","request_id"}. Paths without their query, which may hold
// secrets.
class AccessLog {
 public:
  // An empty path: entries go to the program's log, at level debug.
  static Result<AccessLog> open(const std::string& path, std::uint64_t rotate_bytes, int keep_files);

  void note(const http::RequestSummary& summary);

 private:
  AccessLog() = default;
  std::optional<RotatingFile> file_;
};

}  // namespace osb::server
