#pragma once

#include <cstdint>
#include <opensandbox/types.h>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

namespace opensandbox {

namespace json = boost::json;

// Fields of answers. A field that is absent, null or of another type is empty: a client takes what it understands.
std::string text_of(const json::object& object, std::string_view key);
std::optional<std::int64_t> int_of(const json::object& object, std::string_view key);
std::optional<double> number_of(const json::object& object, std::string_view key);
bool bool_of(const json::object& object, std::string_view key);
std::optional<Timestamp> time_of(const json::object& object, std::string_view key);
const json::object* object_of(const json::object& object, std::string_view key);
const json::array* array_of(const json::object& object, std::string_view key);
std::vector<std::string> texts_of(const json::object& object, std::string_view key);
StringMap map_of(const json::object& object);  // values that are no strings as JSON text

json::value to_json(const StringMap& map);
json::value to_json(const std::vector<std::string>& texts);

// Body of an answer as an object or an array, else InvalidResponse.
Result<json::value> parse_answer(std::string_view body, std::string_view request_id);

}  // namespace opensandbox
