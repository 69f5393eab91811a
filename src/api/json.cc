#include "api/json.h"

#include <algorithm>

#include <boost/json/parser.hpp>

#include "base/json_escape.h"
#include "base/parse_number.h"
#include "base/text.h"
#include "base/utf8.h"

namespace osb::api {
namespace {

std::string to_snake_case(std::string_view camel) {
  std::string out;
  for (const char c : camel) {
    if (c >= 'A' && c <= 'Z') out.push_back('_');
    out.push_back(lower(c));
  }
  return out;
}

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }

// An integral number, written as an integer or not (60.0); nothing when it is not integral or does not fit.
std::optional<std::int64_t> whole_number(double number) {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (!(number >= -kLimit && number < kLimit)) return std::nullopt;
  const auto whole = static_cast<std::int64_t>(number);
  if (static_cast<double>(whole) != number) return std::nullopt;
  return whole;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  text = trimmed(text, " \t\r\n");
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  if (const auto point = text.find('.'); point != std::string_view::npos && point + 1 < text.size()) {
    if (text.find_first_not_of('0', point + 1) == std::string_view::npos) text = text.substr(0, point);
  }
  return parse_number<std::int64_t>(text);
}

std::optional<std::int64_t> to_int64(const json::value& value, bool lax) {
  if (const auto* number = value.if_int64()) return *number;
  if (!lax) return std::nullopt;
  if (const auto* number = value.if_double()) return whole_number(*number);
  if (const auto* text = value.if_string()) return whole_number(view(*text));
  return std::nullopt;
}

std::optional<bool> to_bool(const json::value& value, bool lax) {
  if (const auto* flag = value.if_bool()) return *flag;
  if (!lax) return std::nullopt;
  if (const auto* text = value.if_string()) return parse_lax_bool(view(*text));
  const auto number = to_int64(value, true);
  if (number == 0 || number == 1) return *number == 1;
  return std::nullopt;
}

}  // namespace

Result<json::value> parse_json(std::string_view text, const JsonLimits& limits) {
  const auto bad = [](const std::string& why) { return fail(Code::InvalidRequest, "body: " + why); };
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return bad("empty, expected JSON");
  json::parse_options options;
  options.max_depth = limits.max_depth;
  json::parser parser(limits.storage, options);
  parser.reset(limits.storage);
  json::error_code error;
  const std::size_t used = parser.write_some(text.data(), text.size(), error);
  if (error) {
    // The parser does not look beyond what is wrong, so the first bad byte is the one it met.
    if (const auto at = find_invalid_utf8(text); at <= used) return bad("invalid UTF-8 at byte " + std::to_string(at));
    if (error == json::error::too_deep) return bad("nested deeper than " + std::to_string(limits.max_depth));
    return bad("invalid JSON at byte " + std::to_string(used) + ": " + error.message());
  }
  if (!limits.ignore_trailing) {
    const auto extra = text.find_first_not_of(" \t\r\n", used);
    if (extra != std::string_view::npos)
      return bad("unexpected data after the value, at byte " + std::to_string(extra));
  }
  return parser.release();
}

std::optional<bool> parse_lax_bool(std::string_view text) {
  for (const std::string_view word : {"true", "1", "yes", "on", "t", "y"}) {
    if (equals_ignoring_case(text, word)) return true;
  }
  for (const std::string_view word : {"false", "0", "no", "off", "f", "n"}) {
    if (equals_ignoring_case(text, word)) return false;
  }
  return std::nullopt;
}

std::string join_pointer(std::string_view pointer, std::string_view key) {
  std::string out(pointer);
  out.push_back('/');
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

ObjectReader::ObjectReader(const json::value& value, ReadOptions options, std::string pointer)
    : options_(options), pointer_(std::move(pointer)) {
  bind(value);
}

ObjectReader::ObjectReader(const json::value& value, std::string pointer, ObjectReader& parent)
    : options_(parent.options_), pointer_(std::move(pointer)), parent_(&parent) {
  bind(value);
}

void ObjectReader::bind(const json::value& value) {
  object_ = value.if_object();
  if (object_ == nullptr) reject("", "expected an object");
}

bool ObjectReader::failed() const { return root().error_.has_value(); }

Result<void> ObjectReader::finish() const {
  if (failed()) return Failure(*root().error_);
  return {};
}

void ObjectReader::reject(std::string_view name, std::string_view why) {
  reject_at(name.empty() ? pointer_ : join_pointer(pointer_, name), why);
}

void ObjectReader::reject_at(const std::string& pointer, std::string_view why) {
  std::optional<Error>& error = root().error_;
  if (error) return;
  std::string where = pointer.empty() ? "body" : pointer;
  // Keys of maps are foreign text: the message stays one readable line.
  where = in_quotes(where, 200);
  where = where.substr(1, where.rfind('"') - 1) + (pointer.size() > 200 ? "..." : "");
  error.emplace(Code::InvalidRequest, where + ": " + std::string(why));
  error->reason = options_.reason;
}

const json::value* ObjectReader::find(std::string_view name) const {
  if (object_ == nullptr || failed()) return nullptr;
  const json::value* found = nullptr;
  if (options_.ignore_case) {
    for (const auto& entry : *object_) {
      if (!entry.value().is_null() && equals_ignoring_case(entry.key(), name)) found = &entry.value();
    }
    return found;
  }
  found = object_->if_contains(name);
  if (found == nullptr && options_.snake_case) found = object_->if_contains(to_snake_case(name));
  return found == nullptr || found->is_null() ? nullptr : found;
}

void ObjectReader::refuse_unknown(std::initializer_list<std::string_view> known) {
  if (object_ == nullptr) return;
  for (const auto& field : *object_) {
    const std::string_view given = field.key();
    const bool is_known = std::ranges::any_of(known, [&](std::string_view name) {
      return given == name || (options_.snake_case && given == to_snake_case(name)) ||
             (options_.ignore_case && equals_ignoring_case(given, name));
    });
    if (!is_known) reject(given, "unknown field");
  }
}

std::optional<std::string> ObjectReader::optional_string(std::string_view name) {
  const json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (const auto* text = value->if_string()) return std::string(view(*text));
  reject(name, "expected a string");
  return std::nullopt;
}

std::string ObjectReader::required_string(std::string_view name) {
  auto text = optional_string(name);
  if (!text || text->empty()) reject(name, "required, and must not be empty");
  return std::move(text).value_or("");
}

std::optional<std::int64_t> ObjectReader::optional_int64(std::string_view name, std::int64_t min, std::int64_t max) {
  const json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto number = to_int64(*value, options_.lax);
  if (!number) {
    reject(name, "expected an integer");
    return std::nullopt;
  }
  if (*number < min || *number > max) {
    const std::string range = max == kMax   ? "of at least " + std::to_string(min)
                              : min == kMin ? "of at most " + std::to_string(max)
                                            : "from " + std::to_string(min) + " to " + std::to_string(max);
    reject(name, "expected an integer " + range);
    return std::nullopt;
  }
  return number;
}

std::int64_t ObjectReader::required_int64(std::string_view name, std::int64_t min, std::int64_t max) {
  const auto number = optional_int64(name, min, max);
  if (!number) reject(name, "required");
  return number.value_or(0);
}

std::optional<bool> ObjectReader::optional_bool(std::string_view name) {
  const json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto flag = to_bool(*value, options_.lax);
  if (!flag) reject(name, "expected true or false");
  return flag;
}

std::optional<std::map<std::string, std::string>> ObjectReader::string_map(std::string_view name, NullEntry nulls) {
  const json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  const json::object* entries = value->if_object();
  if (entries == nullptr) {
    reject(name, "expected an object of strings");
    return std::nullopt;
  }
  std::map<std::string, std::string> out;
  for (const auto& entry : *entries) {
    if (entry.value().is_null() && nulls == NullEntry::Skip) continue;
    const auto* text = entry.value().if_string();
    if (text == nullptr) {
      reject_at(join_pointer(join_pointer(pointer_, name), entry.key()), "expected a string");
      return std::nullopt;
    }
    out.emplace(entry.key(), view(*text));
  }
  return out;
}

std::optional<std::vector<std::string>> ObjectReader::string_list(std::string_view name) {
  const json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  const json::array* items = value->if_array();
  if (items == nullptr) {
    reject(name, "expected an array of strings");
    return std::nullopt;
  }
  std::vector<std::string> out;
  for (const json::value& item : *items) {
    const auto* text = item.if_string();
    if (text == nullptr) {
      reject_at(join_pointer(join_pointer(pointer_, name), std::to_string(out.size())), "expected a string");
      return std::nullopt;
    }
    out.emplace_back(view(*text));
  }
  return out;
}

bool ObjectReader::object(std::string_view name, const std::function<void(ObjectReader&)>& read) {
  const json::value* value = find(name);
  if (value == nullptr) return false;
  ObjectReader child(*value, join_pointer(pointer_, name), *this);
  if (!failed()) read(child);
  return true;
}

bool ObjectReader::array(std::string_view name, const std::function<void(ObjectReader&)>& read) {
  const json::value* value = find(name);
  if (value == nullptr) return false;
  const json::array* items = value->if_array();
  if (items == nullptr) {
    reject(name, "expected an array of objects");
    return true;
  }
  const std::string pointer = join_pointer(pointer_, name);
  for (std::size_t i = 0; i < items->size() && !failed(); ++i) {
    ObjectReader child((*items)[i], join_pointer(pointer, std::to_string(i)), *this);
    if (!failed()) read(child);
  }
  return true;
}

void ObjectReader::for_each_object(const std::function<void(const std::string&, ObjectReader&)>& read) {
  if (object_ == nullptr) return;
  for (const auto& entry : *object_) {
    if (failed()) return;
    const std::string key(entry.key());
    ObjectReader child(entry.value(), join_pointer(pointer_, key), *this);
    if (!failed()) read(key, child);
  }
}

Result<void> read_array(const json::value& value, const ReadOptions& options,
                        const std::function<void(ObjectReader&)>& read) {
  const json::array* items = value.if_array();
  if (items == nullptr) {
    Error error(Code::InvalidRequest, "body: expected an array of objects");
    error.reason = options.reason;
    return Failure(std::move(error));
  }
  for (std::size_t i = 0; i < items->size(); ++i) {
    ObjectReader reader((*items)[i], options, join_pointer("", std::to_string(i)));
    if (!reader.failed()) read(reader);
    if (auto done = reader.finish(); !done) return done;
  }
  return {};
}

}  // namespace osb::api
