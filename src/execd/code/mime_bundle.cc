#include "execd/code/mime_bundle.h"

#include <boost/json/serialize.hpp>

namespace osb::execd {

std::map<std::string, std::string> mime_bundle(const boost::json::value* value) {
  std::map<std::string, std::string> out;
  const boost::json::object* object = value != nullptr ? value->if_object() : nullptr;
  if (object == nullptr) return out;
  for (const auto& [type, content] : *object) {
    if (content.is_null()) continue;
    const boost::json::string* text = content.if_string();
    out.insert_or_assign(std::string(type), text != nullptr ? std::string(*text) : boost::json::serialize(content));
  }
  return out;
}

}  // namespace osb::execd
