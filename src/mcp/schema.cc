#include "mcp/schema.h"

#include <algorithm>
#include <cmath>

#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include "api/json.h"

namespace osb::mcp {
namespace schema {
namespace {

json::object typed(std::string_view type, std::string_view description) {
  json::object out{{"type", type}};
  if (!description.empty()) out["description"] = description;
  return out;
}

json::object build(std::initializer_list<Property> properties, std::string_view description) {
  json::object out = typed("object", description);
  json::object members;
  json::array required;
  for (const Property& property : properties) {
    members[property.name] = property.schema;
    if (!property.schema.contains("default")) required.emplace_back(property.name);
  }
  out["properties"] = std::move(members);
  if (!required.empty()) out["required"] = std::move(required);
  return out;
}

}  // namespace

json::object string(std::string_view description) { return typed("string", description); }
json::object integer(std::string_view description) { return typed("integer", description); }
json::object number(std::string_view description) { return typed("number", description); }
json::object boolean(std::string_view description) { return typed("boolean", description); }

json::object list_of(json::object items, std::string_view description) {
  json::object out = typed("array", description);
  out["items"] = std::move(items);
  return out;
}

json::object string_list(std::string_view description) { return list_of(typed("string", ""), description); }

json::object string_map(std::string_view description) {
  json::object out = typed("object", description);
  out["additionalProperties"] = typed("string", "");
  return out;
}

json::object one_of(std::initializer_list<std::string_view> values, std::string_view description) {
  json::object out = typed("string", description);
  json::array names;
  for (std::string_view value : values) names.emplace_back(value);
  out["enum"] = std::move(names);
  return out;
}

json::object nullable(json::object schema) {
  json::object out;
  if (const json::value* description = schema.if_contains("description")) {
    out["description"] = *description;
    schema.erase("description");
  }
  json::array forms;
  forms.emplace_back(std::move(schema));
  forms.emplace_back(json::object{{"type", "null"}});
  out["anyOf"] = std::move(forms);
  out["default"] = nullptr;
  return out;
}

json::object with_default(json::object schema, json::value value) {
  schema["default"] = std::move(value);
  return schema;
}

json::object at_least(json::object schema, std::int64_t minimum) {
  schema["minimum"] = minimum;
  return schema;
}

json::object at_most(json::object schema, std::int64_t maximum) {
  schema["maximum"] = maximum;
  return schema;
}

json::object arguments(std::initializer_list<Property> properties) {
  json::object out = build(properties, "");
  out["additionalProperties"] = false;
  return out;
}

json::object object(std::initializer_list<Property> properties, std::string_view description) {
  return build(properties, description);
}

json::object with_properties(std::initializer_list<Property> properties, json::object schema) {
  json::object front = build(properties, "");
  for (const auto& [name, member] : schema["properties"].as_object()) front["properties"].as_object()[name] = member;
  json::array required;
  for (const json::object* part : {&front, &schema}) {
    if (const json::value* names = part->if_contains("required")) {
      for (const json::value& name : names->as_array()) required.push_back(name);
    }
  }
  schema["properties"] = std::move(front["properties"]);
  if (!required.empty()) schema["required"] = std::move(required);
  return schema;
}

json::object compact(const json::object& schema) {
  json::object out;
  for (const auto& [key, value] : schema) {
    if (key == "default" && value.is_null()) continue;
    if (key == "anyOf") {  // nullable()
      for (const auto& [name, member] : compact(value.as_array().front().as_object())) out[name] = member;
    } else if (key == "properties") {
      json::object members;
      for (const auto& [name, member] : value.as_object()) members[name] = compact(member.as_object());
      out[key] = std::move(members);
    } else if (value.is_object() && key != "default") {  // items, additionalProperties
      out[key] = compact(value.as_object());
    } else {
      out[key] = value;
    }
  }
  return out;
}

}  // namespace schema

namespace {

std::string where(std::string_view pointer) { return pointer.empty() ? "arguments" : std::string(pointer); }

Failure wrong(std::string_view pointer, std::string_view why) {
  return fail(Code::InvalidRequest, where(pointer).append(": ").append(why));
}

// Clients quote whole objects; anything else stays the string it is.
void unquote(json::value& value) {
  const json::string* text = value.if_string();
  if (text == nullptr) return;
  auto inner = api::parse_json({text->data(), text->size()});
  if (inner && (inner->is_object() || inner->is_array())) value = std::move(*inner);
}

Result<void> check_bounds(const json::object& schema, double number, std::string_view pointer) {
  if (const json::value* minimum = schema.if_contains("minimum"); minimum && number < minimum->to_number<double>()) {
    return wrong(pointer, fmt::format("expected at least {}", json::serialize(*minimum)));
  }
  if (const json::value* maximum = schema.if_contains("maximum"); maximum && number > maximum->to_number<double>()) {
    return wrong(pointer, fmt::format("expected at most {}", json::serialize(*maximum)));
  }
  return {};
}

Result<json::value> conform_object(const json::object& schema, json::value value, std::string_view pointer) {
  unquote(value);
  json::object* given = value.if_object();
  if (given == nullptr) return wrong(pointer, "expected an object");
  const json::value* properties = schema.if_contains("properties");
  const json::value* others = schema.if_contains("additionalProperties");
  json::object out;
  for (auto& [key, member] : *given) {
    const json::value* known = properties != nullptr ? properties->as_object().if_contains(key) : nullptr;
    const std::string at = api::join_pointer(pointer, key);
    const json::object* rule = known != nullptr                           ? &known->as_object()
                               : others != nullptr && others->is_object() ? &others->as_object()
                                                                          : nullptr;
    if (rule == nullptr && others != nullptr) return wrong(at, "there is no such argument");
    if (rule == nullptr) continue;  // part of an argument that we do not know: ignored
    // Null stands for "not given" wherever there is a default.
    if (member.is_null() && rule->contains("default")) continue;
    auto got = conform(*rule, std::move(member), at);
    if (!got) return Failure(got.error());
    out[key] = std::move(*got);
  }
  if (properties == nullptr) return json::value(std::move(out));
  for (const auto& [key, rule] : properties->as_object()) {
    if (out.contains(key)) continue;
    const json::value* fallback = rule.as_object().if_contains("default");
    if (fallback == nullptr) return wrong(api::join_pointer(pointer, key), "is missing");
    out[key] = *fallback;
  }
  return json::value(std::move(out));
}

Result<json::value> conform_array(const json::object& schema, json::value value, std::string_view pointer) {
  unquote(value);
  json::array* given = value.if_array();
  if (given == nullptr) return wrong(pointer, "expected a list");
  std::size_t index = 0;
  for (json::value& item : *given) {
    auto got =
        conform(schema.at("items").as_object(), std::move(item), api::join_pointer(pointer, std::to_string(index++)));
    if (!got) return got;
    item = std::move(*got);
  }
  return value;
}

Result<json::value> conform_number(const json::object& schema, bool whole, json::value value,
                                   std::string_view pointer) {
  double number = 0;
  if (const std::int64_t* integer = value.if_int64()) {
    number = static_cast<double>(*integer);
  } else if (const double* real = value.if_double()) {
    number = *real;
  } else {
    return wrong(pointer, whole ? "expected an integer" : "expected a number");
  }
  if (whole) {
    if (std::trunc(number) != number || std::abs(number) > 9.0e15) return wrong(pointer, "expected an integer");
    if (value.is_double()) value = static_cast<std::int64_t>(number);
  }
  if (auto good = check_bounds(schema, number, pointer); !good) return Failure(good.error());
  return value;
}

}  // namespace

Result<json::value> conform(const json::object& schema, json::value value, std::string_view pointer) {
  if (const json::value* forms = schema.if_contains("anyOf")) {  // nullable(): a form, or null
    if (value.is_null()) return value;
    return conform(forms->as_array().front().as_object(), std::move(value), pointer);
  }
  const std::string_view type = schema.at("type").as_string();
  if (type == "object") return conform_object(schema, std::move(value), pointer);
  if (type == "array") return conform_array(schema, std::move(value), pointer);
  if (type == "integer" || type == "number") {
    return conform_number(schema, type == "integer", std::move(value), pointer);
  }
  if (type == "boolean") {
    if (!value.is_bool()) return wrong(pointer, "expected true or false");
    return value;
  }
  if (!value.is_string()) return wrong(pointer, "expected a string");
  if (const json::value* names = schema.if_contains("enum")) {
    const json::array& allowed = names->as_array();
    if (std::ranges::find(allowed, value) == allowed.end()) {
      return wrong(pointer, "expected one of " + json::serialize(allowed));
    }
  }
  return value;
}

}  // namespace osb::mcp
