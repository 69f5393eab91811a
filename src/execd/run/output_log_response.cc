#include "execd/run/output_log_response.h"

#include <algorithm>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace osb::execd {
namespace {

// Two files cannot be one sendfile; this copies.
net::awaitable<Result<void>> send_parts(std::vector<OutputLog::Part> parts, http::BodyWriter& writer) {
  std::string buffer(256 * 1024, '\0');
  for (OutputLog::Part& part : parts) {
    while (part.length > 0) {
      const std::size_t want = static_cast<std::size_t>(std::min<std::uint64_t>(part.length, buffer.size()));
      const ssize_t n = ::pread(part.file->get(), buffer.data(), want, static_cast<off_t>(part.offset));
      if (n <= 0) co_return fail(Code::Internal, "the log ended early");
      if (auto sent = co_await writer.write(std::string_view(buffer.data(), static_cast<std::size_t>(n))); !sent) {
        co_return sent;
      }
      part.offset += static_cast<std::uint64_t>(n);
      part.length -= static_cast<std::uint64_t>(n);
    }
  }
  co_return Result<void>();
}

}  // namespace

http::Response output_log_response(const OutputLog* log, std::uint64_t end, std::uint64_t cursor,
                                   std::string_view cursor_name, std::string_view skipped_name) {
  const std::uint64_t begin = log != nullptr ? log->begin() : end;
  if (log != nullptr) end = log->end();
  std::vector<OutputLog::Part> parts;
  if (log != nullptr) parts = log->slice(std::max(cursor, begin));

  http::Response response = http::text_response(200, "");
  response.headers.set("Content-Type", "text/plain; charset=utf-8");
  response.headers.add(std::string(cursor_name), std::to_string(std::max(cursor, end)));
  if (cursor < begin) response.headers.add(std::string(skipped_name), std::to_string(begin - cursor));
  if (parts.size() == 1) {
    const OutputLog::Part& part = parts.front();
    UniqueFd file(::fcntl(part.file->get(), F_DUPFD_CLOEXEC, 0));
    if (!file) return http::problem(500, "RUNTIME_ERROR", "no descriptor left");
    response.body = http::FileBody{std::move(file), part.offset, part.length};
  } else if (parts.size() > 1) {
    std::uint64_t length = 0;
    for (const auto& part : parts) length += part.length;
    response.body = http::StreamBody{
        [parts = std::move(parts)](http::BodyWriter& writer) { return send_parts(parts, writer); }, length};
  }
  return response;
}

}  // namespace osb::execd
