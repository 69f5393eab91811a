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

// The response depends on the origin; Vary tells caches so.
void allow_origin(Headers& headers, std::string_view origin) {
  headers.set("Access-Control-Allow-Origin", std::string(origin));
  if (!headers.has_token("Vary", "Origin")) headers.add("Vary", "Origin");
}

Response preflight(const Request& request, std::string_view origin) {
  Response response = text_response(200, "OK");
  allow_origin(response.headers, origin);
  response.headers.add("Access-Control-Allow-Credentials", "true");
  response.headers.add("Access-Control-Allow-Methods", "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT");
  response.headers.add("Access-Control-Max-Age", "600");
  if (const std::string* wanted = request.headers.find("Access-Control-Request-Headers")) {
    response.headers.add("Access-Control-Allow-Headers", *wanted);
  }
  return response;
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

Handler with_cors(Handler inner) {
  return [inner = std::move(inner)](Request& request) -> net::awaitable<Response> {
    const std::string* origin = request.headers.find("Origin");
    if (!origin) co_return co_await inner(request);
    const std::string allowed = *origin;  // the handler may change the request
    if (request.method == "OPTIONS" && request.headers.contains("Access-Control-Request-Method")) {
      co_return preflight(request, allowed);
    }
    const bool with_cookie = request.headers.contains("Cookie");
    Response response = co_await inner(request);
    if (with_cookie) {
      allow_origin(response.headers, allowed);
    } else {
      response.headers.set("Access-Control-Allow-Origin", "*");
    }
    response.headers.set("Access-Control-Allow-Credentials", "true");
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
