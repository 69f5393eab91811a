#pragma once

#include <map>
#include <string>

#include <boost/json/value.hpp>

namespace osb::execd {

// A value by MIME type, out of a JSON object; empty for anything else. A content that is not a string becomes its JSON
// text: one official client takes strings only. A null is left out.
std::map<std::string, std::string> mime_bundle(const boost::json::value* value);

}  // namespace osb::execd
