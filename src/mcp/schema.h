#pragma once

#include <initializer_list>
#include <string_view>

#include <boost/json/array.hpp>

#include "base/error.h"
#include "mcp/json_rpc.h"

namespace osb::mcp {

// JSON Schemas of tools: built here, shown to clients, and used to check arguments, so that the three agree.
namespace schema {

json::object string(std::string_view description);
json::object integer(std::string_view description);
json::object number(std::string_view description);
json::object boolean(std::string_view description);
json::object string_list(std::string_view description);
json::object string_map(std::string_view description);
json::object list_of(json::object items, std::string_view description);
json::object one_of(std::initializer_list<std::string_view> values, std::string_view description);
// Or null; for arguments this is also the default.
json::object nullable(json::object schema);
json::object with_default(json::object schema, json::value value);
json::object at_least(json::object schema, std::int64_t minimum);
json::object at_most(json::object schema, std::int64_t maximum);

// A property that has no default is required.
struct Property {
  std::string_view name;
  json::object schema;
};
// Arguments: nothing else may be given.
json::object arguments(std::initializer_list<Property> properties);
// Results and parts of them: more may come.
json::object object(std::initializer_list<Property> properties, std::string_view description = "");
// The schema with further properties in front of those it has.
json::object with_properties(std::initializer_list<Property> properties, json::object schema);

// The schema in fewer words, for models: optional members have no null form and no null default. Null is accepted for
// them all the same.
json::object compact(const json::object& schema);

}  // namespace schema

// `value` as the schema wants it: types checked, defaults filled in, and a string that holds JSON taken for the object
// or list it holds (clients send such). A wrong field is named by its JSON pointer. Knows what the builders above use.
Result<json::value> conform(const json::object& schema, json::value value, std::string_view pointer = "");

}  // namespace osb::mcp
