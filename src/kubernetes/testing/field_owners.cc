#include "kubernetes/testing/field_owners.h"

#include <algorithm>
#include <string_view>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "kubernetes/patch.h"

namespace osb::kubernetes::testing {
namespace {

namespace json = boost::json;

// Fields of the metadata that an applier can own.
constexpr std::string_view kOwnable[] = {"labels", "annotations", "finalizers", "ownerReferences"};

std::string element_name(std::string_view key, const json::value& id) {
  return "[" + std::string(key) + "=" + json::serialize(id) + "]";
}

std::string_view list_key(std::string_view field, const json::value& value, bool keyed_lists) {
  const json::array* list = value.if_array();
  if (!keyed_lists || list == nullptr || list->empty()) return {};
  const std::string_view key = merge_key_of(field, *list);
  const bool all = std::ranges::all_of(
      *list, [&](const json::value& each) { return each.is_object() && each.get_object().contains(key); });
  return all ? key : std::string_view();
}

void collect(const json::value& value, FieldPath& at, bool keyed_lists, FieldSet& out) {
  if (const json::object* object = value.if_object(); object != nullptr && !object->empty()) {
    for (const auto& [key, each] : *object) {
      at.emplace_back(key);
      collect(each, at, keyed_lists, out);
      at.pop_back();
    }
    return;
  }
  if (const auto key = list_key(at.empty() ? "" : at.back(), value, keyed_lists); !key.empty()) {
    for (const json::value& each : value.get_array()) {
      at.push_back(element_name(key, each.get_object().at(key)));
      collect(each, at, keyed_lists, out);
      at.pop_back();
    }
    return;
  }
  out.insert(at);
}

// One step down a path; nullptr when there is nothing.
json::value* step_into(json::value& value, const std::string& step) {
  if (json::object* object = value.if_object()) return object->if_contains(step);
  json::array* list = value.if_array();
  if (list == nullptr || !step.starts_with('[')) return nullptr;
  const std::string key = step.substr(1, step.find('=') - 1);
  for (json::value& each : *list) {
    const json::value* id = each.is_object() ? each.get_object().if_contains(key) : nullptr;
    if (id != nullptr && element_name(key, *id) == step) return &each;
  }
  return nullptr;
}

void remove_child(json::value& parent, const std::string& step) {
  if (json::object* object = parent.if_object()) {
    object->erase(step);
  } else if (json::value* found = step_into(parent, step)) {
    json::array& list = parent.get_array();
    list.erase(list.begin() + (found - list.data()));
  }
}

}  // namespace

FieldSet leaves(const json::object& object, bool keyed_lists) {
  FieldSet out;
  for (const auto& [key, value] : object) {
    FieldPath at{std::string(key)};
    if (key == "apiVersion" || key == "kind") continue;
    if (key != "metadata" || !value.is_object()) {
      collect(value, at, keyed_lists, out);
      continue;
    }
    for (const std::string_view field : kOwnable) {
      const json::value* found = value.get_object().if_contains(field);
      if (found == nullptr) continue;
      at.emplace_back(field);
      collect(*found, at, keyed_lists, out);
      at.pop_back();
    }
  }
  return out;
}

const json::value* leaf(const json::object& object, const FieldPath& path) {
  const json::value* at = path.empty() ? nullptr : object.if_contains(path.front());
  for (std::size_t i = 1; at != nullptr && i < path.size(); ++i) at = step_into(const_cast<json::value&>(*at), path[i]);
  return at;
}

void erase_leaf(json::object& object, const FieldPath& path) {
  json::value whole(std::move(object));
  std::vector<json::value*> chain{&whole};
  for (const std::string& step : path) {
    json::value* next = step_into(*chain.back(), step);
    if (next == nullptr) break;
    chain.push_back(next);
  }
  if (chain.size() == path.size() + 1) {
    remove_child(*chain[path.size() - 1], path.back());
    for (std::size_t i = path.size() - 1; i > 0; --i) {
      const json::value& parent = *chain[i];
      const bool empty = parent.is_object() ? parent.get_object().empty() : parent.get_array().empty();
      // An element of which only the identity is left goes as well.
      const bool bare = parent.is_object() && path[i - 1].starts_with('[') && parent.get_object().size() == 1;
      if (!empty && !bare) break;
      remove_child(*chain[i - 1], path[i - 1]);
    }
  }
  object = std::move(whole.get_object());
}

void FieldOwners::wrote(const std::string& manager, const json::object& before, const json::object& after,
                        bool keyed_lists) {
  for (const FieldPath& path : leaves(after, keyed_lists)) {
    const json::value* old = leaf(before, path);
    if (old != nullptr && *old == *leaf(after, path)) continue;
    for (auto& [name, fields] : fields_) fields.erase(path);
    fields_["update:" + manager].insert(path);
  }
  for (auto& [name, fields] : fields_) {
    std::erase_if(fields, [&](const FieldPath& path) { return leaf(after, path) == nullptr; });
  }
}

std::vector<std::string> FieldOwners::conflicts(const std::string& manager, const json::object& current,
                                                const json::object& wanted, bool keyed_lists) const {
  std::vector<std::string> out;
  for (const FieldPath& path : leaves(wanted, keyed_lists)) {
    const json::value* now = leaf(current, path);
    if (now == nullptr || *now == *leaf(wanted, path)) continue;
    for (const auto& [name, fields] : fields_) {
      if (name == "apply:" + manager || !fields.contains(path)) continue;
      std::string line = name.substr(name.find(':') + 1) + ": ";
      for (const std::string& step : path) line += "." + step;
      out.push_back(std::move(line));
    }
  }
  return out;
}

FieldSet FieldOwners::applied(const std::string& manager, const json::object& current, const json::object& wanted,
                              bool keyed_lists) {
  FieldSet now = leaves(wanted, keyed_lists);
  for (const FieldPath& path : now) {
    const json::value* old = leaf(current, path);
    if (old != nullptr && *old == *leaf(wanted, path)) continue;
    for (auto& [name, fields] : fields_) fields.erase(path);
  }
  FieldSet& mine = fields_["apply:" + manager];
  FieldSet gone;
  std::ranges::set_difference(mine, now, std::inserter(gone, gone.end()));
  mine = std::move(now);
  for (const auto& [name, fields] : fields_) {
    std::erase_if(gone, [&](const FieldPath& path) { return fields.contains(path); });
  }
  return gone;
}

}  // namespace osb::kubernetes::testing
