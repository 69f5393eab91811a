#include "execd/metrics/telemetry.h"

namespace osb::execd {
namespace {

class NoTelemetry final : public Telemetry {
 public:
  void record_request(std::string_view, std::string_view, int, std::chrono::nanoseconds) override {}
  void record_execution(std::string_view, bool, std::chrono::nanoseconds) override {}
  void record_filesystem(std::string_view, bool, std::chrono::nanoseconds) override {}
};

struct FileRoute {
  std::string_view method;
  std::string_view route;
  std::string_view operation;
};

constexpr FileRoute kFileRoutes[] = {
    {"GET", "/files/info", "info"},          {"DELETE", "/files", "delete"},
    {"POST", "/files/permissions", "chmod"}, {"POST", "/files/mv", "rename"},
    {"POST", "/directories", "mkdir"},       {"DELETE", "/directories", "rmdir"},
    {"GET", "/directories/list", "listdir"}, {"GET", "/files/search", "search"},
    {"POST", "/files/replace", "replace"},   {"POST", "/files/upload", "upload"},
    {"GET", "/files/download", "download"},
};

}  // namespace

Telemetry& no_telemetry() {
  static NoTelemetry nothing;
  return nothing;
}

std::string_view filesystem_operation(std::string_view method, std::string_view route) {
  for (const FileRoute& known : kFileRoutes) {
    if (known.route == route && known.method == method) return known.operation;
  }
  return {};
}

std::function<void(const http::RequestSummary&)> record_requests(Telemetry& telemetry) {
  return [&telemetry](const http::RequestSummary& summary) {
    const http::Request& request = summary.request;
    telemetry.record_request(request.method, request.route, summary.status, summary.duration);
    const std::string_view operation = filesystem_operation(request.method, request.route);
    if (operation.empty()) return;
    telemetry.record_filesystem(operation, summary.status < 400 && !summary.truncated, summary.duration);
  };
}

}  // namespace osb::execd
