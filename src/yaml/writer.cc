#include "yaml/writer.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include "base/json_escape.h"
#include "base/text.h"

namespace osb::yaml {
namespace {

namespace json = boost::json;

bool looks_like_number(const std::string& text) {
  char* end = nullptr;
  (void)std::strtod(text.c_str(), &end);  // also takes hex, inf and nan
  return end != text.c_str() && *end == '\0';
}

// YAML 1.1 readers take these for something else than text.
bool is_reserved(const std::string& text) {
  const std::string found = lower(text);
  for (const char* word : {"", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", ".nan", ".inf",
                           "-.inf", "+.inf", "=", "<<"}) {
    if (found == word) return true;
  }
  return false;
}

// Characters that JSON allows in a string and YAML does not: DEL, U+0080 to U+009F, U+FEFF, U+FFFE and U+FFFF.
std::string without_unprintable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto at = [&](std::size_t offset) {
      return i + offset < text.size() ? static_cast<unsigned char>(text[i + offset]) : 0U;
    };
    const bool special = at(0) == 0xEF && ((at(1) == 0xBB && at(2) == 0xBF) || (at(1) == 0xBF && at(2) >= 0xBE));
    if (at(0) == 0x7F) {
      out += "\\u007F";
    } else if (at(0) == 0xC2 && at(1) >= 0x80 && at(1) < 0xA0) {
      out += fmt::format("\\u{:04X}", at(1));
      ++i;
    } else if (special) {
      out += at(1) == 0xBB ? "\\uFEFF" : at(2) == 0xBE ? "\\uFFFE" : "\\uFFFF";
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// Plain where no reader can misunderstand it: letters, digits and a few signs, not a number, a date or a word with a
// meaning. Everything else in double quotes, which YAML reads as JSON does.
std::string scalar(std::string_view text) {
  std::string copy(text);
  const auto safe = [](char c) {
    return is_letter_or_digit(c) || c == '_' || c == '/' || c == '.' || c == '-' || c == ' ' || c == '+';
  };
  const bool letters_first = !copy.empty() && (is_letter(copy[0]) || copy[0] == '/' || copy[0] == '_');
  if (letters_first && std::ranges::all_of(copy, safe) && copy.back() != ' ' && !is_reserved(copy) &&
      !looks_like_number(copy)) {
    return copy;
  }
  std::string quoted;
  append_json_string(quoted, text);
  return without_unprintable(quoted);
}

// YAML 1.1 readers take 5E-1, JSON's form, for a text.
std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  std::string out = fmt::format("{}", value);
  return out.find_first_of(".e") == std::string::npos ? out + ".0" : out;
}

std::string inline_value(const json::value& value) {
  if (value.is_string()) return scalar(std::string_view(value.get_string()));
  if (value.is_double()) return number(value.get_double());
  return json::serialize(value);  // integers, booleans, null, [] and {}
}

bool is_block(const json::value& value) {
  return (value.is_object() && !value.get_object().empty()) || (value.is_array() && !value.get_array().empty());
}

// Lines of `value`, each behind `indent` blanks; the first without, when it follows a "- ".
void append(std::string& out, const json::value& value, Keys keys, std::size_t indent, bool first_inline) {
  const std::string blanks(indent, ' ');
  const auto begin_line = [&] {
    if (!std::exchange(first_inline, false)) out += blanks;
  };
  if (const json::object* object = value.if_object()) {
    std::vector<std::string_view> names;
    for (const auto& [name, unused] : *object) names.emplace_back(name);
    if (keys == Keys::Sorted) std::ranges::sort(names);
    for (const std::string_view key : names) {
      const json::value& item = object->at(key);
      begin_line();
      out += scalar(key) + ":";
      if (is_block(item)) {
        out += '\n';
        append(out, item, keys, item.is_array() ? indent : indent + 2, false);
      } else {
        out += " " + inline_value(item) + "\n";
      }
    }
  } else if (const json::array* array = value.if_array()) {
    for (const json::value& item : *array) {
      begin_line();
      out += "- ";
      if (is_block(item)) {
        append(out, item, keys, indent + 2, true);
      } else {
        out += inline_value(item) + "\n";
      }
    }
  }
}

}  // namespace

std::string to_text(const json::value& value, Keys keys) {
  if (!is_block(value)) return inline_value(value) + "\n";
  std::string out;
  append(out, value, keys, 0, false);
  return out;
}

}  // namespace osb::yaml
