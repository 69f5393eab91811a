#include "client/errors.h"

#include "api/json.h"

namespace opensandbox {
namespace {

Failure make(ErrorKind kind, std::string code, std::string message, std::string request_id = {}) {
  Error error;
  error.kind = kind;
  error.code = std::move(code);
  error.message = std::move(message);
  error.request_id = std::move(request_id);
  return Failure(std::move(error));
}

constexpr std::size_t kShownBody = 500;

std::string shown(std::string_view body) {
  while (!body.empty() && (body.back() == '\n' || body.back() == '\r' || body.back() == ' ')) body.remove_suffix(1);
  if (body.size() <= kShownBody) return std::string(body);
  return std::string(body.substr(0, kShownBody)) + "..";
}

std::string text_in(const osb::api::json::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  if (value == nullptr) return {};
  if (const auto* text = value->if_string()) return {text->data(), text->size()};
  return {};
}

}  // namespace

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Api:
      return "api";
    case ErrorKind::Network:
      return "network";
    case ErrorKind::InvalidResponse:
      return "invalid response";
    case ErrorKind::ReadyTimeout:
      return "ready timeout";
    case ErrorKind::Unhealthy:
      return "unhealthy";
    case ErrorKind::InvalidArgument:
      return "invalid argument";
    case ErrorKind::Cancelled:
      return "cancelled";
    case ErrorKind::Local:
      return "local";
    case ErrorKind::Pool:
      return "pool";
  }
  return "unknown";
}

std::string Error::to_string() const {
  std::string out;
  if (status != 0) out = std::to_string(status) + ' ';
  out += code + ": " + message;
  if (!request_id.empty()) out += " (request " + request_id + ')';
  return out;
}

Failure network_error(std::string message) { return make(ErrorKind::Network, "NETWORK_ERROR", std::move(message)); }
Failure invalid_response(std::string message, std::string request_id) {
  return make(ErrorKind::InvalidResponse, "UNEXPECTED_RESPONSE", std::move(message), std::move(request_id));
}
Failure invalid_argument(std::string message) {
  return make(ErrorKind::InvalidArgument, "INVALID_ARGUMENT", std::move(message));
}
Failure cancelled(std::string message) { return make(ErrorKind::Cancelled, "CANCELLED", std::move(message)); }
Failure local_error(std::string message) { return make(ErrorKind::Local, "LOCAL_ERROR", std::move(message)); }
Failure wake_timeout(std::string_view request_id) {
  auto failure =
      make(ErrorKind::ReadyTimeout, "WAKE_TIMEOUT",
           "the sandbox is paused and was not woken in time; the request was not forwarded", std::string(request_id));
  failure.error().status = 503;
  return failure;
}

Failure pool_error(std::string code, std::string message) {
  return make(ErrorKind::Pool, std::move(code), std::move(message));
}

Failure from_transport(const osb::Error& error) {
  if (error.code == osb::Code::Cancelled) return cancelled(error.message);
  return network_error(error.message);
}

Error api_error(int status, std::string_view body, std::string_view request_id) {
  Error error;
  error.kind = ErrorKind::Api;
  error.status = status;
  error.request_id = request_id;
  if (const auto value = osb::api::parse_json(body); value && value->is_object()) {
    const auto& object = value->get_object();
    error.code = text_in(object, "code");
    error.message = text_in(object, "message");
    if (error.message.empty()) error.message = text_in(object, "error");
    if (error.message.empty()) error.message = text_in(object, "detail");
  }
  if (error.code.empty()) error.code = "UNEXPECTED_RESPONSE";
  if (error.message.empty()) error.message = body.empty() ? "the answer has no body" : shown(body);
  return error;
}

}  // namespace opensandbox
