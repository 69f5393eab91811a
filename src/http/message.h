#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "async/net.h"
#include "base/error.h"
#include "http/body.h"
#include "http/headers.h"
#include "http/transport.h"

namespace osb::http {

// Path parameters in the order of the pattern. Values are percent-decoded, except of a `{name*}` tail, which is the
// raw rest of the path.
class PathParams {
 public:
  void add(std::string_view name, std::string value) { values_.emplace_back(name, std::move(value)); }
  void clear() { values_.clear(); }
  // The value of a parameter that the pattern declares; empty if it does not.
  const std::string& operator[](std::string_view name) const;

 private:
  std::vector<std::pair<std::string_view, std::string>> values_;  // names point into the router
};

// One request as a handler sees it. It lives on the session's stack until the response has been sent.
struct Request {
  std::string method;
  std::string target;  // exactly as received: origin form, starts with '/', or "*"
  Headers headers;
  int minor_version = 1;  // HTTP/1.x
  // Never null in a handler. Shared so that a copy loop that is still running when the response is over stays valid.
  std::shared_ptr<BodySource> body;
  PathParams params;
  std::string request_id;  // set by the request-id middleware
  std::string peer;        // the client's IP address, or "unix"
  // The client's connection, the session's to read and write; null in a request that no session has read.
  Transport* connection = nullptr;
  // The pattern of the route that took the request ("/command/{id}/logs"), for metrics and logs; set by the router.
  std::string_view route;

  // The target up to '?', and what follows it; not decoded.
  std::string_view path() const;
  std::string_view query() const;
};

// Takes over the connection after a 101: `buffered` is what the client had already sent behind the request.
using UpgradeHandler = std::move_only_function<net::awaitable<void>(Transport& transport, std::string buffered)>;

struct Response {
  int status = 200;
  Headers headers;
  std::variant<std::string, FileBody, StreamBody, UpgradeHandler> body;
  // Ask the session to close the connection after this response.
  bool close = false;
};

using Handler = std::function<net::awaitable<Response>(Request&)>;

std::string_view reason_phrase(int status);

// Responses that the whole project sends in one way.
// Carries Content-Length: 0 (clients depend on it), except where HTTP forbids it: 1xx, 204 and 304.
Response empty_response(int status = 200);
Response text_response(int status, std::string text);
Response json_response(int status, std::string json);
// {"code","message"}: the status follows error.code unless given; an empty reason becomes `default_reason`.
Response problem(int status, std::string_view code, std::string_view message);
Response problem(const Error& error, std::string_view default_reason = "GENERAL::UNKNOWN_ERROR");
int status_of(Code code);
// text/event-stream with the headers that keep proxies from buffering it.
Response event_stream(std::move_only_function<net::awaitable<Result<void>>(BodyWriter&)> produce);

}  // namespace osb::http
