#pragma once

#include <string>

#include <boost/json/value.hpp>

namespace osb::yaml {

enum class Keys { Sorted, AsTheyAre };

// A value in block style. Reading it back gives the same value, also with readers of YAML 1.1.
std::string to_text(const boost::json::value& value, Keys keys);

}  // namespace osb::yaml
