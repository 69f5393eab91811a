#include "kubernetes/testing/status_answer.h"

#include <boost/json/serialize.hpp>

#include "base/parse_number.h"
#include "http/status.h"
#include "kubernetes/api_status.h"

namespace osb::kubernetes::testing {
namespace {

int http_status(const Error& error) {
  return error.reason == reasons::kExpired ? 410 : error.code == Code::Unsupported ? 405 : http::status_of(error.code);
}

json::object status_with(int status, std::string_view reason, std::string_view message) {
  return {{"kind", "Status"},    {"apiVersion", "v1"}, {"metadata", json::object()},
          {"status", "Failure"}, {"message", message}, {"reason", reason},
          {"code", status}};
}

}  // namespace

http::Response object_answer(const json::object& object, int status) {
  return http::json_response(status, json::serialize(object));
}

http::Response status_answer(int status, std::string_view reason, std::string_view message) {
  return object_answer(status_with(status, reason, message), status);
}

json::object status_object(const Error& error) { return status_with(http_status(error), error.reason, error.message); }

http::Response refusal(const Error& error) { return object_answer(status_object(error), http_status(error)); }

http::Response answer_of(const Result<ObjectPtr>& result, int status) {
  return result ? object_answer(**result, status) : refusal(result.error());
}

Error expired(std::string message) {
  Error error(Code::Conflict, std::move(message));
  error.reason = reasons::kExpired;
  return error;
}

std::string event_line(std::string_view type, const json::object& object) {
  return json::serialize(json::object{{"type", type}, {"object", object}}) + "\n";
}

std::string change_line(const Change& change, bool before, bool now) {
  if (now) return event_line(before ? "MODIFIED" : "ADDED", *change.after);
  if (!before) return "";
  json::object last = *change.before;
  // The version of the change: a watch goes on from there.
  make_object(last, {"metadata"})["resourceVersion"] = std::to_string(change.version);
  return event_line("DELETED", last);
}

DeleteOptions delete_options(const json::object& body, const http::Query& query) {
  DeleteOptions out;
  out.propagation = text(body, {"propagationPolicy"});
  if (out.propagation.empty()) out.propagation = query.get("propagationPolicy");
  if (const json::value* grace = body.if_contains("gracePeriodSeconds"); grace != nullptr && grace->is_int64()) {
    out.grace_seconds = static_cast<int>(grace->get_int64());
  } else if (const auto seconds = parse_number<int>(query.get("gracePeriodSeconds"))) {
    out.grace_seconds = seconds;
  }
  out.uid = text(body, {"preconditions", "uid"});
  out.version = text(body, {"preconditions", "resourceVersion"});
  return out;
}

}  // namespace osb::kubernetes::testing
