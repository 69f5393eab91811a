#include "http/middleware.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>

#include "base/id.h"
#include "http/path_token.h"

namespace osb::http {

namespace {

constexpr std::size_t kMaxRequestId = 128;

std::string request_id_of(const Request& request) {
  const std::string_view given = trim_ows(request.headers.get("X-Request-ID"));
  const bool usable = !given.empty() && given.size() <= kMaxRequestId &&
                      std::ranges::all_of(given, [](char c) { return c >= ' ' && c < 0x7f; });
  return usable ? std::string(given) : new_hex_id();
}

}  // namespace

Handler with_request_id(Handler inner) {
  return [inner = std::move(inner)](Request& request) -> net::awaitable<Response> {
    request.request_id = request_id_of(request);
    Response response = co_await inner(request);
    response.headers.set("X-Request-ID", request.request_id);
    co_return response;
  };
}

Handler with_fence(Handler inner, std::string code) {
  return [inner = std::move(inner), code = std::move(code)](Request& request) -> net::awaitable<Response> {
    std::string what;
    try {
      co_return co_await inner(request);
    } catch (const boost::system::system_error& error) {
      if (error.code() == net::error::operation_aborted) throw;
      what = error.what();
    } catch (const std::exception& error) {
      what = error.what();
    } catch (...) {
      what = "an exception of unknown type";
    }
    log_error("http handler failed", {{"error", what},
                                      {"method", request.method},
                                      {"path", loggable_path(request.path())},
                                      {"request_id", request.request_id}});
    co_return problem(500, code, "internal error");
  };
}

std::function<void(const RequestSummary&)> access_log(LogLevel level) {
  return [level](const RequestSummary& summary) {
    if (!log_enabled(level)) return;
    const Request& request = summary.request;
    const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(summary.duration);
    log_at(level, "http request",
           {{"method", request.method},
            {"path", loggable_path(request.path())},
            {"status", summary.status},
            {"bytes", summary.body_bytes},
            {"ms", static_cast<double>(microseconds.count()) / 1000},
            {"request_id", request.request_id.empty() ? std::string_view("-") : std::string_view(request.request_id)},
            {"truncated", summary.truncated}});
  };
}

}  // namespace osb::http
