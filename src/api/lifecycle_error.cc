#include "api/lifecycle_error.h"

#include "base/json_escape.h"

namespace osb::api {
namespace {

struct Place {
  std::string_view root = "body";  // body, query, path or header
  std::string_view pointer;        // "/a/0"
  std::string_view why;
};

// "query/page: why" and "/a/0: why"; a message without a place is about the body.
Place place_of(std::string_view message) {
  Place place;
  place.why = message;
  std::string_view rest = message;
  for (const std::string_view root : {"body", "query", "path", "header"}) {
    if (rest.starts_with(root) &&
        (rest.substr(root.size()).starts_with('/') || rest.substr(root.size()).starts_with(':'))) {
      place.root = root;
      rest.remove_prefix(root.size());
      break;
    }
  }
  if (!rest.starts_with('/') && !rest.starts_with(':')) return place;
  const auto end = rest.find(": ");
  if (end == std::string_view::npos) return place;
  place.pointer = rest.substr(0, end);
  place.why = rest.substr(end + 2);
  return place;
}

bool is_index(std::string_view step) {
  return !step.empty() && step.size() < 10 && step.find_first_not_of("0123456789") == std::string_view::npos;
}

void append_location(std::string& out, const Place& place) {
  out += '[';
  append_json_string(out, place.root);
  std::string_view rest = place.pointer;
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view raw = rest.substr(0, rest.find('/'));
    rest.remove_prefix(raw.size());
    out += ',';
    if (is_index(raw)) {
      out += std::to_string(std::stol(std::string(raw)));  // JSON knows no leading zeros
      continue;
    }
    std::string step;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      const bool escaped = raw[i] == '~' && i + 1 < raw.size();
      step += escaped ? (raw[++i] == '1' ? '/' : '~') : raw[i];
    }
    append_json_string(out, step);
  }
  out += ']';
}

}  // namespace

std::string backend_reason(std::string_view backend, std::string_view suffix) {
  return std::string(backend) + "::" + std::string(suffix);
}

Failure refuse(Code code, std::string_view reason, std::string message) {
  Error error(code, std::move(message));
  error.reason = reason;
  return Failure(std::move(error));
}

Failure invalid_parameter(std::string_view where, std::string_view why) {
  return refuse(Code::InvalidRequest, reason::kInvalidParameter, std::string(where) + ": " + std::string(why));
}

Failure unprocessable(std::string_view where, std::string_view why) {
  return refuse(Code::Unprocessable, reason::kInvalidParameter, std::string(where) + ": " + std::string(why));
}

Failure unprocessable(Error error) {
  error.code = Code::Unprocessable;
  error.reason = reason::kInvalidParameter;
  return Failure(std::move(error));
}

Result<json::value> parse_lifecycle_body(std::string_view body) {
  auto value = parse_json(body);
  if (!value) return unprocessable(std::move(value).error());
  return value;
}

Result<void> finish_schema(const ObjectReader& reader) {
  auto done = reader.finish();
  if (!done) return unprocessable(std::move(done).error());
  return done;
}

std::string encode_error(const Error& error) {
  std::string_view message = error.message;
  if (message.empty()) message = "The server could not do this.";
  std::string out = R"({"code":)";
  append_json_string(out, error.reason.empty() ? "GENERAL::UNKNOWN_ERROR" : error.reason);
  out += R"(,"message":)";
  append_json_string(out, message);
  if (error.code == Code::Unprocessable) {
    const Place place = place_of(message);
    out += R"(,"detail":[{"type":"value_error","loc":)";
    append_location(out, place);
    out += R"(,"msg":)";
    append_json_string(out, place.why);
    out += "}]";
  }
  out += '}';
  return out;
}

}  // namespace osb::api
