#pragma once

#include <string>

#include <boost/json/value.hpp>

#include "base/error.h"

namespace osb::yaml {

// A YAML document as JSON, by YAML's core schema; JSON is YAML too. Anchors, tags and more than one document are
// refused: they can grow without limit, or mean something else than they seem to. Errors name the line and never
// repeat the text, which may hold secrets.
Result<boost::json::value> parse(const std::string& text);

}  // namespace osb::yaml
