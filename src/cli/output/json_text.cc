#include <cmath>

#include <fmt/format.h>

#include "base/json_escape.h"
#include "cli/output/output.h"

namespace osb::cli {
namespace {

// Shortest form that reads back the same; whole numbers keep their ".0", as the original writes them.
std::string number_text(double number) {
  if (!std::isfinite(number)) return "null";
  std::string out = fmt::format("{}", number);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

void append(std::string& out, const json::value& value, bool pretty, std::size_t depth) {
  const auto newline = [&](std::size_t level) {
    if (pretty) out += '\n' + std::string(level * 2, ' ');
  };
  switch (value.kind()) {
    case json::kind::null:
      out += "null";
      return;
    case json::kind::bool_:
      out += value.get_bool() ? "true" : "false";
      return;
    case json::kind::int64:
      out += std::to_string(value.get_int64());
      return;
    case json::kind::uint64:
      out += std::to_string(value.get_uint64());
      return;
    case json::kind::double_:
      out += number_text(value.get_double());
      return;
    case json::kind::string:
      append_json_string(out, std::string_view(value.get_string()));
      return;
    case json::kind::array: {
      out += '[';
      for (bool first = true; const json::value& item : value.get_array()) {
        if (!first) out += pretty ? "," : ", ";
        first = false;
        newline(depth + 1);
        append(out, item, pretty, depth + 1);
      }
      if (!value.get_array().empty()) newline(depth);
      out += ']';
      return;
    }
    case json::kind::object: {
      out += '{';
      for (bool first = true; const auto& [key, item] : value.get_object()) {
        if (!first) out += pretty ? "," : ", ";
        first = false;
        newline(depth + 1);
        append_json_string(out, key);
        out += ": ";
        append(out, item, pretty, depth + 1);
      }
      if (!value.get_object().empty()) newline(depth);
      out += '}';
      return;
    }
  }
}

}  // namespace

std::string to_pretty_json(const json::value& value) {
  std::string out;
  append(out, value, true, 0);
  return out;
}

std::string to_json_line(const json::value& value) {
  std::string out;
  append(out, value, false, 0);
  return out;
}

std::string to_cell(const json::value& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return std::string(value.get_string());
  if (value.is_bool()) return value.get_bool() ? "True" : "False";
  return to_json_line(value);
}

}  // namespace osb::cli
