#include "policy/templates/toml_tree.h"

#include <algorithm>

#include "base/edit_distance.h"
#include "base/json_escape.h"
#include "base/toml.h"

namespace osb::policy {
namespace {

constexpr std::size_t kMaxText = 1 << 20;
constexpr std::size_t kMaxLine = 4096;
constexpr int kMaxDepth = 16;
constexpr std::size_t kLongestGuess = 64;

TomlPlace place_of(const toml::source_region& region) { return {region.begin.line, region.begin.column}; }

// False: too deep.
bool convert(const toml::node& node, int depth, TomlValue& out) {
  if (depth > kMaxDepth) return false;
  out.place = place_of(node.source());
  if (const auto* text = node.as_string()) {
    out.kind = TomlValue::Kind::String;
    out.text = text->get();
  } else if (const auto* number = node.as_integer()) {
    out.kind = TomlValue::Kind::Integer;
    out.number = number->get();
  } else if (const auto* list = node.as_array()) {
    out.kind = TomlValue::Kind::Array;
    out.items.resize(list->size());
    for (std::size_t i = 0; i < list->size(); ++i) {
      if (!convert(*list->get(i), depth + 1, out.items[i])) return false;
    }
  } else if (const auto* table = node.as_table()) {
    out.kind = TomlValue::Kind::Table;
    for (const auto& [key, value] : *table) {
      TomlMember& member = out.members.emplace_back();
      member.key = key.str();
      member.place = place_of(key.source());
      if (!convert(value, depth + 1, member.value)) return false;
    }
    std::ranges::sort(out.members, {}, [](const TomlMember& m) { return std::pair(m.place.line, m.place.column); });
  }
  return true;
}

// The number of the first line that is too long; 0: none is.
unsigned long_line(std::string_view text) {
  for (unsigned number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    if (std::min(end, text.size()) > kMaxLine) return number;
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return 0;
}

}  // namespace

const TomlValue* TomlValue::find(std::string_view key) const {
  const auto found = std::ranges::find(members, key, &TomlMember::key);
  return found == members.end() ? nullptr : &found->value;
}

std::string place_text(const std::string& source, TomlPlace place) {
  if (place.line == 0) return source;
  return source + ":" + std::to_string(place.line) + ":" + std::to_string(place.column);
}

std::string did_you_mean(std::string_view name, const std::vector<std::string_view>& candidates) {
  constexpr std::size_t kNear = 3;
  if (name.empty() || name.size() > kLongestGuess) return "";
  std::string_view best;
  std::size_t distance = std::min(kNear, name.size() - 1) + 1;
  for (const std::string_view each : candidates) {
    if (const std::size_t here = edit_distance(each, name); here < distance) {
      distance = here;
      best = each;
    }
  }
  return best.empty() ? "" : "; did you mean " + std::string(best) + "?";
}

Result<TomlFile> TomlFile::parse(std::string_view text, std::string source) {
  if (text.size() > kMaxText) return fail(Code::TooLarge, source + ": larger than 1 MiB");
  if (const unsigned line = long_line(text); line > 0)
    return fail(Code::InvalidRequest, place_text(source, {line, 1}) + ": the line has more than 4096 bytes");
  toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return fail(Code::InvalidRequest, place_text(source, place_of(parsed.error().source())) +
                                          ": not valid TOML: " + std::string(parsed.error().description()));
  }
  TomlValue root;
  if (!convert(parsed.table(), 0, root))
    return fail(Code::InvalidRequest, source + ": tables and arrays nest deeper than 16");
  return TomlFile(std::move(root), std::move(source));
}

Failure TomlFile::refuse(TomlPlace place, const std::string& why) const {
  return fail(Code::InvalidRequest, place_text(source_, place) + ": " + why);
}

Result<void> TomlFile::check_keys(const TomlValue& table, const std::vector<std::string_view>& known) const {
  for (const TomlMember& member : table.members) {
    if (std::ranges::find(known, member.key) != known.end()) continue;
    return refuse(member.place, "unknown key " + in_quotes(member.key) + did_you_mean(member.key, known));
  }
  return {};
}

Result<std::string> TomlFile::string(const TomlValue& table, std::string_view key) const {
  const TomlValue* value = table.find(key);
  if (value == nullptr) return std::string();
  if (value->kind != TomlValue::Kind::String) return refuse(value->place, std::string(key) + ": expected a string");
  return value->text;
}

Result<const TomlValue*> TomlFile::table(const TomlValue& parent, std::string_view key) const {
  const TomlValue* value = parent.find(key);
  if (value != nullptr && value->kind != TomlValue::Kind::Table)
    return refuse(value->place, std::string(key) + ": expected a table");
  return value;
}

Result<const std::vector<TomlValue>*> TomlFile::array(const TomlValue& parent, std::string_view key, TomlValue::Kind of,
                                                      std::string_view what) const {
  static const std::vector<TomlValue> kNone;
  const TomlValue* value = parent.find(key);
  if (value == nullptr) return &kNone;
  const std::string expected = std::string(key) + ": expected an array of " + std::string(what);
  if (value->kind != TomlValue::Kind::Array) return refuse(value->place, expected);
  for (const TomlValue& item : value->items) {
    if (item.kind != of) return refuse(item.place, expected);
  }
  return &value->items;
}

}  // namespace osb::policy
