#include "runtime/docker/engine_json.h"

#include <algorithm>
#include <limits>

namespace osb::runtime::engine {

namespace json = boost::json;

const json::value* find(const json::value& value, Path path) {
  const json::value* at = &value;
  for (const std::string_view key : path) {
    const json::object* object = at->if_object();
    at = object != nullptr ? object->if_contains(key) : nullptr;
    if (at == nullptr || at->is_null()) return nullptr;
  }
  return at;
}

std::string text(const json::value& value, Path path) {
  const json::value* found = find(value, path);
  const json::string* string = found != nullptr ? found->if_string() : nullptr;
  return string != nullptr ? std::string(*string) : std::string();
}

std::int64_t number(const json::value& value, Path path) {
  const json::value* found = find(value, path);
  if (found == nullptr) return 0;
  if (const auto* integer = found->if_int64()) return *integer;
  // Beyond what signed numbers hold engines write "no limit".
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (const auto* natural = found->if_uint64()) return static_cast<std::int64_t>(std::min(*natural, kMost));
  if (const auto* real = found->if_double(); real != nullptr && *real > -9e18 && *real < 9e18) {
    return static_cast<std::int64_t>(*real);
  }
  return 0;
}

bool flag(const json::value& value, Path path) {
  const json::value* found = find(value, path);
  return found != nullptr && found->is_bool() && found->get_bool();
}

api::StringMap string_map(const json::value& value, Path path) {
  api::StringMap out;
  const json::value* found = find(value, path);
  if (found == nullptr || !found->is_object()) return out;
  for (const auto& [key, item] : found->get_object()) {
    if (const json::string* string = item.if_string()) out.emplace(std::string(key), std::string(*string));
  }
  return out;
}

std::vector<std::string> string_list(const json::value& value, Path path) {
  std::vector<std::string> out;
  const json::value* found = find(value, path);
  if (found == nullptr || !found->is_array()) return out;
  for (const json::value& item : found->get_array()) {
    if (const json::string* string = item.if_string()) out.emplace_back(*string);
  }
  return out;
}

}  // namespace osb::runtime::engine
