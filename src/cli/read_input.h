#pragma once

#include <string>

#include <boost/json/value.hpp>

#include "cli/problem.h"

namespace osb::cli {

// A file named on the command line, "-" meaning stdin. `what` names it in messages: "network policy".
Expected<std::string> read_input(const std::string& path, const std::string& what);
Expected<boost::json::value> read_json_file(const std::string& path, const std::string& what);
// JSON is YAML too.
Expected<boost::json::value> read_yaml_file(const std::string& path, const std::string& what);

}  // namespace osb::cli
