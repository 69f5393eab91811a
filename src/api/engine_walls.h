#pragma once

#include <string>
#include <vector>

#include <boost/json/value.hpp>

namespace osb::api {

// The walls around containers that an engine does not have, by its answer to GET /info: a sentence each, for operators.
// Fields that an engine leaves out count as present: engines differ in what they report.
std::vector<std::string> missing_engine_walls(const boost::json::value& info);

}  // namespace osb::api
