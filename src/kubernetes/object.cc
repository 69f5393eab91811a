#include "kubernetes/object.h"

#include <boost/json/array.hpp>

#include "base/parse_number.h"

namespace osb::kubernetes {
namespace {

const json::array* list_at(const json::object& object, std::initializer_list<std::string_view> path) {
  const json::value* value = find(object, path);
  return value == nullptr ? nullptr : value->if_array();
}

}  // namespace

const json::value* find(const json::object& object, std::initializer_list<std::string_view> path) {
  const json::object* in = &object;
  const json::value* at = nullptr;
  for (const std::string_view step : path) {
    if (in == nullptr) return nullptr;
    at = in->if_contains(step);
    if (at == nullptr) return nullptr;
    in = at->if_object();
  }
  return at;
}

std::string_view text(const json::object& object, std::initializer_list<std::string_view> path) {
  const json::value* value = find(object, path);
  const json::string* string = value == nullptr ? nullptr : value->if_string();
  return string == nullptr ? std::string_view() : std::string_view(*string);
}

std::int64_t number(const json::object& object, std::initializer_list<std::string_view> path, std::int64_t otherwise) {
  const json::value* value = find(object, path);
  const std::int64_t* integer = value == nullptr ? nullptr : value->if_int64();
  return integer == nullptr ? otherwise : *integer;
}

json::object& make_object(json::object& object, std::initializer_list<std::string_view> path) {
  json::object* at = &object;
  for (const std::string_view step : path) {
    json::value& next = (*at)[step];
    if (!next.is_object()) next.emplace_object();
    at = &next.get_object();
  }
  return *at;
}

Key key_of(const json::object& object) {
  return {std::string(text(object, {"metadata", "namespace"})), std::string(text(object, {"metadata", "name"}))};
}

std::string_view uid_of(const json::object& object) { return text(object, {"metadata", "uid"}); }

std::string_view label(const json::object& object, std::string_view name) {
  return text(object, {"metadata", "labels", name});
}

std::string_view annotation(const json::object& object, std::string_view name) {
  return text(object, {"metadata", "annotations", name});
}

bool is_deleting(const json::object& object) { return !text(object, {"metadata", "deletionTimestamp"}).empty(); }

bool has_finalizer(const json::object& object, std::string_view name) {
  const json::array* all = list_at(object, {"metadata", "finalizers"});
  if (all == nullptr) return false;
  for (const json::value& each : *all) {
    if (each.is_string() && each.get_string() == name) return true;
  }
  return false;
}

std::optional<std::uint64_t> parse_version(std::string_view text) { return parse_number<std::uint64_t>(text); }

std::string_view version_of(const json::object& object) { return text(object, {"metadata", "resourceVersion"}); }

bool is_older(const json::object& a, const json::object& b) {
  const auto left = parse_version(version_of(a));
  const auto right = parse_version(version_of(b));
  return left && right && *left < *right;
}

json::object owner_reference(const json::object& owner, bool controller) {
  json::object reference{{"apiVersion", text(owner, {"apiVersion"})},
                         {"kind", text(owner, {"kind"})},
                         {"name", text(owner, {"metadata", "name"})},
                         {"uid", uid_of(owner)}};
  if (controller) {
    reference["controller"] = true;
    reference["blockOwnerDeletion"] = true;
  }
  return reference;
}

std::string_view controller_uid(const json::object& object) {
  const json::array* all = list_at(object, {"metadata", "ownerReferences"});
  if (all == nullptr) return {};
  for (const json::value& each : *all) {
    const json::object* reference = each.if_object();
    const json::value* controls = reference == nullptr ? nullptr : reference->if_contains("controller");
    if (controls != nullptr && controls->is_bool() && controls->get_bool()) return text(*reference, {"uid"});
  }
  return {};
}

}  // namespace osb::kubernetes
