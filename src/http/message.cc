#include "http/message.h"

#include "base/json_escape.h"

namespace osb::http {

const std::string& PathParams::operator[](std::string_view name) const {
  static const std::string kNone;
  for (const auto& [key, value] : values_) {
    if (key == name) return value;
  }
  return kNone;
}

std::string_view Request::path() const { return std::string_view(target).substr(0, target.find('?')); }

std::string_view Request::query() const {
  const auto mark = target.find('?');
  return mark == std::string::npos ? std::string_view() : std::string_view(target).substr(mark + 1);
}

// The IANA registry; 418 and 499 are left out because nothing here sends them.
// clang-format off
std::string_view reason_phrase(int status) {
  switch (status) {
    case 100: return "Continue";
    case 101: return "Switching Protocols";
    case 102: return "Processing";
    case 103: return "Early Hints";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 203: return "Non-Authoritative Information";
    case 204: return "No Content";
    case 205: return "Reset Content";
    case 206: return "Partial Content";
    case 207: return "Multi-Status";
    case 208: return "Already Reported";
    case 226: return "IM Used";
    case 300: return "Multiple Choices";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 303: return "See Other";
    case 304: return "Not Modified";
    case 305: return "Use Proxy";
    case 307: return "Temporary Redirect";
    case 308: return "Permanent Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 402: return "Payment Required";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 407: return "Proxy Authentication Required";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 411: return "Length Required";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 416: return "Range Not Satisfiable";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 423: return "Locked";
    case 424: return "Failed Dependency";
    case 425: return "Too Early";
    case 426: return "Upgrade Required";
    case 428: return "Precondition Required";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 451: return "Unavailable For Legal Reasons";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    case 506: return "Variant Also Negotiates";
    case 507: return "Insufficient Storage";
    case 508: return "Loop Detected";
    case 510: return "Not Extended";
    case 511: return "Network Authentication Required";
    default: return "Unknown";
  }
}
// clang-format on

Response empty_response(int status) {
  Response response;
  response.status = status;
  // RFC 9110 8.6: a 1xx or 204 carries no Content-Length. A 304 may only carry that of the full answer.
  if (status >= 200 && status != 204 && status != 304) response.headers.add("Content-Length", "0");
  return response;
}

Response text_response(int status, std::string text) {
  Response response;
  response.status = status;
  response.headers.add("Content-Type", "text/plain; charset=utf-8");
  response.body = std::move(text);
  return response;
}

Response json_response(int status, std::string json) {
  Response response;
  response.status = status;
  response.headers.add("Content-Type", "application/json");
  response.body = std::move(json);
  return response;
}

Response problem(int status, std::string_view code, std::string_view message) {
  std::string json = R"({"code":)";
  append_json_string(json, code.empty() ? "GENERAL::UNKNOWN_ERROR" : code);
  json += R"(,"message":)";
  append_json_string(json, message.empty() ? reason_phrase(status) : message);
  json += '}';
  return json_response(status, std::move(json));
}

Response problem(const Error& error, std::string_view default_reason) {
  return problem(status_of(error.code), error.reason.empty() ? default_reason : std::string_view(error.reason),
                 error.message);
}

Response event_stream(std::move_only_function<net::awaitable<Result<void>>(BodyWriter&)> produce) {
  Response response;
  response.headers.add("Content-Type", "text/event-stream");
  response.headers.add("Cache-Control", "no-cache");
  response.headers.add("X-Accel-Buffering", "no");  // nginx buffers otherwise
  response.body = StreamBody{std::move(produce), std::nullopt};
  return response;
}

}  // namespace osb::http
