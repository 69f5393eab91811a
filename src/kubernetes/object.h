#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

namespace osb::kubernetes {

namespace json = boost::json;

// An object of the cluster as the API server sends it. Caches share objects, so they are never changed.
using ObjectPtr = std::shared_ptr<const json::object>;

// An object's place among those of its resource; `ns` is empty where the resource has no namespaces.
struct Key {
  std::string ns;
  std::string name;
  auto operator<=>(const Key&) const = default;
  std::string to_string() const { return ns.empty() ? name : ns + "/" + name; }
};

// The value at a path of keys; nullptr when a step is missing or no object.
const json::value* find(const json::object& object, std::initializer_list<std::string_view> path);
// Its text or number; empty or the default when it is missing or of another type.
std::string_view text(const json::object& object, std::initializer_list<std::string_view> path);
std::int64_t number(const json::object& object, std::initializer_list<std::string_view> path,
                    std::int64_t otherwise = 0);
// The object at a path, made where it is missing. A value of another type on the way is replaced.
json::object& make_object(json::object& object, std::initializer_list<std::string_view> path);

Key key_of(const json::object& object);
std::string_view uid_of(const json::object& object);
std::string_view label(const json::object& object, std::string_view name);
std::string_view annotation(const json::object& object, std::string_view name);
bool is_deleting(const json::object& object);
bool has_finalizer(const json::object& object, std::string_view name);

// Resource versions are numbers in every API server there is, and newer ones are greater. Nothing: not a number, so
// that two versions can only be compared for equality.
std::optional<std::uint64_t> parse_version(std::string_view text);
std::string_view version_of(const json::object& object);
// Whether `a` is certainly older than `b`.
bool is_older(const json::object& a, const json::object& b);

// The reference by which `owner` owns another object. `controller` also blocks the owner's deletion in the foreground.
json::object owner_reference(const json::object& owner, bool controller);
// The UID of the owner that controls an object; empty if it has none.
std::string_view controller_uid(const json::object& object);

}  // namespace osb::kubernetes
