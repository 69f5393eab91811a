#include <algorithm>
#include <string_view>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "controller/crds/crds.h"

namespace osb::controller {
namespace {

namespace json = boost::json;

// Texts that mean the same with and without quotes, for every YAML reader.
bool is_plain(std::string_view text) {
  if (text.empty() || !is_letter(text[0])) return false;
  for (const std::string_view word : {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}) {
    if (equals_ignoring_case(text, word)) return false;
  }
  return std::ranges::all_of(
      text, [](char c) { return is_letter_or_digit(c) || c == '.' || c == '/' || c == '-' || c == '_'; });
}

std::string scalar(const json::value& value) {
  if (value.is_string() && is_plain(value.get_string())) return std::string(value.get_string());
  return json::serialize(value);
}

bool is_block(const json::value& value) {
  return (value.is_object() && !value.get_object().empty()) || (value.is_array() && !value.get_array().empty());
}

void write(std::string& out, const json::value& value, std::size_t indent);

void write_map(std::string& out, const json::object& map, std::size_t indent, bool first_is_placed) {
  for (const auto& [key, value] : map) {
    if (!first_is_placed) out.append(indent, ' ');
    first_is_placed = false;
    out += scalar(json::value(key)) + ":";
    if (is_block(value)) {
      out += '\n';
      write(out, value, value.is_array() ? indent : indent + 2);
    } else {
      out += ' ' + scalar(value) + '\n';
    }
  }
}

void write(std::string& out, const json::value& value, std::size_t indent) {
  if (const json::object* map = value.if_object()) return write_map(out, *map, indent, false);
  for (const json::value& each : value.get_array()) {
    out.append(indent, ' ').append("- ");
    if (const json::object* map = each.if_object(); map != nullptr && !map->empty()) {
      write_map(out, *map, indent + 2, true);
    } else {
      out += scalar(each) + '\n';
    }
  }
}

}  // namespace

std::string to_yaml(const json::value& value) {
  std::string out;
  if (is_block(value)) {
    write(out, value, 0);
  } else {
    out = scalar(value) + '\n';
  }
  return out;
}

}  // namespace osb::controller
