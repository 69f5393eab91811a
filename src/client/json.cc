#include "client/json.h"

#include "api/json.h"
#include "base/time.h"
#include "client/errors.h"

namespace opensandbox {

std::string text_of(const json::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  const auto* text = value != nullptr ? value->if_string() : nullptr;
  return text != nullptr ? std::string(text->data(), text->size()) : std::string();
}

std::optional<std::int64_t> int_of(const json::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  if (const auto* number = value->if_double()) {
    constexpr double kLimit = 9.2e18;
    if (!(*number > -kLimit && *number < kLimit)) return std::nullopt;
    return static_cast<std::int64_t>(*number);
  }
  if (const auto* number = value->if_uint64()) return static_cast<std::int64_t>(*number);
  return value->get_int64();
}

std::optional<double> number_of(const json::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  if (const auto* number = value->if_double()) return *number;
  if (const auto* number = value->if_uint64()) return static_cast<double>(*number);
  return static_cast<double>(value->get_int64());
}

bool bool_of(const json::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  return value != nullptr && value->is_bool() && value->get_bool();
}

std::optional<Timestamp> time_of(const json::object& object, std::string_view key) {
  const std::string text = text_of(object, key);
  if (text.empty()) return std::nullopt;
  const auto time = osb::parse_timestamp(text);
  if (!time) return std::nullopt;
  return *time;
}

const json::object* object_of(const json::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  return value != nullptr ? value->if_object() : nullptr;
}

const json::array* array_of(const json::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  return value != nullptr ? value->if_array() : nullptr;
}

std::vector<std::string> texts_of(const json::object& object, std::string_view key) {
  std::vector<std::string> out;
  if (const auto* array = array_of(object, key)) {
    for (const auto& value : *array) {
      if (const auto* text = value.if_string()) out.emplace_back(text->data(), text->size());
    }
  }
  return out;
}

StringMap map_of(const json::object& object) {
  StringMap out;
  for (const auto& member : object) {
    const auto* text = member.value().if_string();
    out.emplace(std::string(member.key()),
                text != nullptr ? std::string(text->data(), text->size()) : json::serialize(member.value()));
  }
  return out;
}

json::value to_json(const StringMap& map) {
  json::object out;
  for (const auto& [key, value] : map) out.emplace(key, value);
  return out;
}

json::value to_json(const std::vector<std::string>& texts) {
  json::array out;
  for (const std::string& text : texts) out.emplace_back(text);
  return out;
}

Result<json::value> parse_answer(std::string_view body, std::string_view request_id) {
  auto value = osb::api::parse_json(body);
  if (!value) {
    return invalid_response("the answer is no JSON (" + value.error().message + "); is this an OpenSandbox server?",
                            std::string(request_id));
  }
  if (!value->is_object() && !value->is_array()) {
    return invalid_response("the answer is no JSON object", std::string(request_id));
  }
  return std::move(*value);
}

std::string format_timestamp(Timestamp time) { return osb::format_timestamp(time); }

}  // namespace opensandbox
