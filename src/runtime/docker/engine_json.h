#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include <boost/json/value.hpp>

#include "api/lifecycle_create.h"

// Reading what an engine says. Engines differ in what they leave out, so nothing that is missing or of another type is
// an error here: it is "", 0 or false, and the caller decides what that means.
namespace osb::runtime::engine {

using Path = std::initializer_list<std::string_view>;

// The value at keys below one another, or nullptr; null counts as missing.
const boost::json::value* find(const boost::json::value& value, Path path);
std::string text(const boost::json::value& value, Path path);
std::int64_t number(const boost::json::value& value, Path path);
bool flag(const boost::json::value& value, Path path);
api::StringMap string_map(const boost::json::value& value, Path path);
std::vector<std::string> string_list(const boost::json::value& value, Path path);

}  // namespace osb::runtime::engine
