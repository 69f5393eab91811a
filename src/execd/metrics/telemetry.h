#pragma once

#include <chrono>
#include <functional>
#include <string_view>

#include "http/server.h"

namespace osb::execd {

// Where parts of the daemon report what they did. Calls are cheap and never wait; one thread.
class Telemetry {
 public:
  virtual ~Telemetry() = default;
  // `route` as the router has it ("/command/{id}/logs"), empty where no route took the request.
  virtual void record_request(std::string_view method, std::string_view route, int status,
                              std::chrono::nanoseconds duration) = 0;
  // `operation`: run_code, run_in_session, run_command.
  virtual void record_execution(std::string_view operation, bool success, std::chrono::nanoseconds duration) = 0;
  // `operation`: info, delete, chmod, rename, mkdir, rmdir, listdir, search, replace, upload, download.
  virtual void record_filesystem(std::string_view operation, bool success, std::chrono::nanoseconds duration) = 0;
};

// Drops everything; the daemon uses it unless telemetry is configured.
Telemetry& no_telemetry();

// The filesystem operation that a route performs; empty for other routes.
std::string_view filesystem_operation(std::string_view method, std::string_view route);

// For ServerOptions::on_complete: reports each request, and those of the file routes as operations too. A response that
// could not be sent whole is a failed operation. `telemetry` outlives the server.
std::function<void(const http::RequestSummary&)> record_requests(Telemetry& telemetry);

}  // namespace osb::execd
