#include "server/audit/access_log.h"

#include <chrono>
#include <filesystem>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/json_escape.h"
#include "base/time.h"
#include "http/middleware.h"
#include "http/path_token.h"

namespace osb::server {

Result<AccessLog> AccessLog::open(const std::string& path, std::uint64_t rotate_bytes, int keep_files) {
  AccessLog log;
  if (path.empty()) return log;
  std::error_code ignored;  // opening the file says it better
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  log.file_.emplace(path, rotate_bytes, keep_files);
  if (auto opened = log.file_->open(); !opened) return with_context("[log] access_file_path", opened.error());
  return log;
}

void AccessLog::note(const http::RequestSummary& summary) {
  if (!file_) {
    static const auto to_log = http::access_log(LogLevel::Debug);
    to_log(summary);
    return;
  }
  const http::Request& request = summary.request;
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(summary.duration);
  std::string line = fmt::format(R"({{"time":"{}","method":)",
                                 format_timestamp(std::chrono::floor<std::chrono::microseconds>(system_clock().now())));
  append_json_string(line, request.method);
  line += ",\"path\":";
  append_json_string(line, http::loggable_path(request.path()));
  line += fmt::format(R"(,"status":{},"bytes":{},"ms":{:.3f})", summary.status, summary.body_bytes,
                      static_cast<double>(microseconds.count()) / 1000);
  line += ",\"peer\":";
  append_json_string(line, request.peer);
  line += ",\"request_id\":";
  append_json_string(line, request.request_id);
  line += "}\n";
  file_->write(line);
}

}  // namespace osb::server
