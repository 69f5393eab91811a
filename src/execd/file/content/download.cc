#include "execd/file/content/download.h"

#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

#include "base/concat.h"
#include "base/parse_number.h"
#include "execd/file/content/line_range.h"
#include "execd/file/content/stream.h"
#include "http/range.h"
#include "http/url.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

// Up to here a file is read into memory and goes out with the head in one write. It also makes files right whose size
// is only a guess (sysfs says 4096).
constexpr std::size_t kSmallFile = 32 * 1024;

struct OpenFile {
  UniqueFd fd;
  struct stat st;
};

// Looks before it opens: opening a device can have effects. The call is short and stays on the loop: a hop to a thread
// and back takes ten times as long.
Result<OpenFile> open_file(const std::string& path) {
  OpenFile file;
  if (::stat(path.c_str(), &file.st) < 0) return sys::from_errno("download " + path, errno);
  if (S_ISDIR(file.st.st_mode)) return fail(Code::InvalidRequest, "download " + path + ": is a directory");
  if (!S_ISREG(file.st.st_mode)) return fail(Code::InvalidRequest, "download " + path + ": not a regular file");
  auto fd = sys::open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!fd) return with_context("download", fd.error());
  file.fd = std::move(*fd);
  if (::fstat(file.fd.get(), &file.st) < 0) return sys::from_errno("stat " + path, errno);
  return file;
}

// Nothing if absent; an error unless it is a decimal number from 1 on.
Result<std::optional<std::uint64_t>> line_number(const http::Query& query, std::string_view name) {
  const std::string_view text = query.get(name);
  if (text.empty()) return std::nullopt;
  const auto value = parse_number<std::int64_t>(text);
  if (!value || *value < 1) {
    return fail(Code::InvalidRequest, std::string(name) + ": expected an integer >= 1");
  }
  return static_cast<std::uint64_t>(*value);
}

Result<std::string> read_small(int fd, std::size_t size) {
  std::string content;
  int error = 0;
  content.resize_and_overwrite(size, [&](char* data, std::size_t) {
    std::size_t done = 0;
    while (done < size) {
      const ssize_t n = ::pread(fd, data + done, size - done, static_cast<off_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) error = errno;
      if (n <= 0) break;
      done += static_cast<std::size_t>(n);
    }
    return done;
  });
  if (error != 0) return sys::from_errno("read", error);
  return content;
}

http::Validators validators_of(const struct stat& st) {
  http::Validators out;
  const auto nanos = static_cast<std::uint64_t>(st.st_mtim.tv_sec) * 1'000'000'000 + st.st_mtim.tv_nsec;
  out.etag =
      concat('"', to_hex(st.st_ino), '-', to_hex(static_cast<std::uint64_t>(st.st_size)), '-', to_hex(nanos), '"');
  out.last_modified = http::HttpTime(std::chrono::seconds(st.st_mtim.tv_sec));
  return out;
}

net::awaitable<Result<http::Response>> download_lines(const FileContext& context, OpenFile file, std::uint64_t first,
                                                      std::uint64_t count) {
  auto lines = std::make_unique<LineRange>(std::move(file.fd), first, count);
  http::Headers headers{{"Content-Type", "text/plain; charset=utf-8"}};
  return produce_response(
      context.pool, std::move(headers),
      [lines = std::move(lines)](std::string& out, std::size_t limit) { return lines->fill(out, limit); }, 256 * 1024);
}

// A file of /proc: its size is not known before it has been read.
net::awaitable<Result<http::Response>> download_unsized(const FileContext& context, OpenFile file,
                                                        http::Headers headers) {
  return produce_response(
      context.pool, std::move(headers),
      [fd = std::move(file.fd)](std::string& out, std::size_t limit) -> Result<bool> {
        while (out.size() < limit) {
          char buffer[16 * 1024];
          const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
          if (n < 0 && errno == EINTR) continue;
          if (n < 0) return sys::from_errno("read", errno);
          if (n == 0) return false;
          out.append(buffer, static_cast<std::size_t>(n));
        }
        return true;
      },
      256 * 1024);
}

net::awaitable<Result<http::Response>> download_bytes(const FileContext& context, http::Request& request, OpenFile file,
                                                      const std::string& path) {
  const http::Validators validators = validators_of(file.st);
  http::Response response;
  response.headers = {{"Content-Type", "application/octet-stream"},
                      {"Content-Disposition", http::attachment_disposition(base_name(path))},
                      {"Accept-Ranges", "bytes"},
                      {"Last-Modified", http::format_http_date(*validators.last_modified)},
                      {"ETag", validators.etag}};

  const auto precondition = http::evaluate_preconditions(request.method, request.headers, validators);
  if (precondition == http::Precondition::Failed) co_return http::problem(412, "UNKNOWN", "precondition failed");
  if (precondition == http::Precondition::NotModified) {
    response.status = 304;
    co_return response;
  }
  auto size = static_cast<std::uint64_t>(file.st.st_size);
  std::string content;
  const bool small = size <= kSmallFile;
  if (small) {
    const auto contents = [&] { return read_small(file.fd.get(), size == 0 ? 1 : size); };
    // Files of the kernel may check the user that reads, not only the user that opened them.
    auto read = context.pool.is_daemon() ? contents() : co_await context.pool.run(contents);
    if (!read) co_return with_context("download " + path, read.error());
    if (size == 0 && !read->empty()) {
      co_return co_await download_unsized(context, std::move(file), std::move(response.headers));
    }
    content = std::move(*read);
    size = content.size();
  }

  http::RangeRequest range;
  if (http::range_applies(request.headers, validators)) range = http::parse_range(request.headers.get("Range"), size);
  using Kind = http::RangeRequest::Kind;
  if (range.kind == Kind::Malformed || range.kind == Kind::Unsatisfiable) {
    auto refused = http::problem(
        416, "UNKNOWN",
        range.kind == Kind::Malformed ? "Range: expected bytes=first-last" : "Range: begins behind the end");
    refused.headers.set("Content-Range", http::unsatisfied_content_range(size));
    co_return refused;
  }
  std::uint64_t offset = 0, length = size;
  if (range.kind == Kind::Part) {
    offset = range.offset;
    length = range.length;
    response.status = 206;
    response.headers.add("Content-Range", http::content_range(offset, length, size));
  }
  if (small) {
    response.body = length == size ? std::move(content) : content.substr(offset, length);
  } else {
    response.body = http::FileBody{std::move(file.fd), offset, length};
  }
  co_return response;
}

net::awaitable<Result<http::Response>> download(const FileContext& context, http::Request& request) {
  const http::Query query = http::Query::parse(request.query());
  const std::string_view wanted = query.get("path");
  if (wanted.empty()) co_return http::problem(400, "MISSING_QUERY", "query parameter path is required");
  auto path = context.resolve(wanted);
  if (!path) co_return Failure(path.error());
  auto file = context.pool.is_daemon() ? open_file(*path) : co_await context.pool.run([&] { return open_file(*path); });
  if (!file) co_return Failure(file.error());
  auto first = line_number(query, "offset");
  if (!first) co_return Failure(first.error());
  auto count = line_number(query, "limit");
  if (!count) co_return Failure(count.error());
  if (!*first && !*count) co_return co_await download_bytes(context, request, std::move(*file), *path);
  if (request.headers.contains("Range")) {
    co_return fail(Code::InvalidRequest, "Range cannot be combined with offset and limit");
  }
  co_return co_await download_lines(context, std::move(*file), first->value_or(1), count->value_or(UINT64_MAX));
}

}  // namespace

net::awaitable<http::Response> download_file(const FileContext& context, http::Request& request) {
  auto response = co_await download(context, request);
  if (!response) co_return file_problem(response.error());
  co_return std::move(*response);
}

}  // namespace osb::execd
