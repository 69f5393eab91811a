#include "kubernetes/api_status.h"

#include <string>

#include "api/json.h"
#include "base/json_escape.h"
#include "http/status.h"
#include "kubernetes/object.h"

namespace osb::kubernetes {
namespace {

constexpr std::size_t kMaxMessage = 2000, kMaxPlainText = 200;

Code code_for(int status) {
  switch (status) {
    case 422:
      return Code::Unprocessable;
    case 429:
      return Code::Exhausted;
    case 410:
      return Code::Conflict;
    case 504:
      return Code::Timeout;
    default:
      return status >= 500 ? Code::Unavailable : http::code_of(status);
  }
}

Error error_for(int http_status, const json::object& status) {
  Error error(code_for(http_status), "");
  error.reason = text(status, {"reason"});
  error.message = text(status, {"message"}).substr(0, kMaxMessage);
  if (error.message.empty()) error.message = "the API server answered " + std::to_string(http_status);
  if (error.reason.empty() && http_status == 410) error.reason = reasons::kExpired;
  return error;
}

}  // namespace

Error api_error(int http_status, std::string_view body) {
  const auto parsed = api::parse_json(body);
  if (parsed && parsed->is_object()) return error_for(http_status, parsed->get_object());
  json::object plain;
  if (!body.empty()) {
    plain["message"] = "the API server answered " + std::to_string(http_status) + ": " +
                       in_quotes(std::string(body.substr(0, kMaxPlainText)));
  }
  return error_for(http_status, plain);
}

Error api_error(const json::object& status) {
  return error_for(static_cast<int>(number(status, {"code"}, 500)), status);
}

}  // namespace osb::kubernetes
