#include "kubernetes/patch.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <boost/json/array.hpp>

namespace osb::kubernetes {
namespace {

namespace json = boost::json;

constexpr std::string_view kPatch = "$patch", kRetain = "$retainKeys", kOrder = "$setElementOrder/",
                           kDeletePrimitive = "$deleteFromPrimitiveList/";
constexpr int kMaxDepth = 64;

// Lists of core types whose elements have an identity. Ports of a container are known by containerPort, those of a
// service by port.
constexpr std::pair<std::string_view, std::string_view> kKeys[] = {
    {"containers", "name"},
    {"initContainers", "name"},
    {"ephemeralContainers", "name"},
    {"env", "name"},
    {"volumes", "name"},
    {"imagePullSecrets", "name"},
    {"secrets", "name"},
    {"resourceClaims", "name"},
    {"volumeMounts", "mountPath"},
    {"volumeDevices", "devicePath"},
    {"hostAliases", "ip"},
    {"podIPs", "ip"},
    {"hostIPs", "ip"},
    {"conditions", "type"},
    {"addresses", "type"},
    {"taints", "key"},
    {"topologySpreadConstraints", "topologyKey"},
    {"ownerReferences", "uid"},
};
// Lists of texts that merge as sets.
constexpr std::string_view kSets[] = {"finalizers"};

bool is_set_list(std::string_view field) { return std::ranges::find(kSets, field) != std::end(kSets); }

bool is_directive(std::string_view key) { return key.starts_with('$'); }

std::string directive_of(const json::object& patch) {
  const json::value* found = patch.if_contains(kPatch);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : "";
}

// Without directives, and without nulls, which mean removal of fields that a new value does not have.
json::value plain(const json::value& value) {
  if (const json::object* object = value.if_object()) {
    json::object out;
    for (const auto& [key, each] : *object) {
      if (!is_directive(key) && !each.is_null()) out[key] = plain(each);
    }
    return out;
  }
  if (const json::array* array = value.if_array()) {
    json::array out;
    for (const json::value& each : *array) {
      if (each.is_object() && directive_of(each.get_object()) == "delete") continue;
      if (each.is_object() && each.get_object().size() == 1 && !directive_of(each.get_object()).empty()) continue;
      out.push_back(plain(each));
    }
    return out;
  }
  return value;
}

class StrategicMerge {
 public:
  Result<void> into(json::object& target, const json::object& patch, const std::string& at, int depth) {
    if (depth > kMaxDepth) return fail(Code::InvalidRequest, at + ": nested too deeply");
    if (const std::string directive = directive_of(patch); directive == "replace") {
      target = plain(patch).as_object();
      return {};
    } else if (directive == "delete") {
      target.clear();
      return {};
    } else if (!directive.empty() && directive != "merge") {
      return fail(Code::InvalidRequest, at + "/$patch: '" + directive + "' is none of merge, replace and delete");
    }
    if (auto kept = retain(target, patch, at); !kept) return kept;
    for (const auto& [key, value] : patch) {
      if (std::string_view(key).starts_with(kDeletePrimitive)) {
        remove_primitives(target, std::string_view(key).substr(kDeletePrimitive.size()), value);
      }
      if (is_directive(key)) continue;
      if (auto done = field(target, key, value, at + "/" + std::string(key), depth); !done) return done;
    }
    for (const auto& [key, value] : patch) {
      if (std::string_view(key).starts_with(kOrder)) {
        order(target, std::string_view(key).substr(kOrder.size()), value);
      }
    }
    return {};
  }

 private:
  static Result<void> retain(json::object& target, const json::object& patch, const std::string& at) {
    const json::value* keep = patch.if_contains(kRetain);
    if (keep == nullptr) return {};
    if (!keep->is_array()) return fail(Code::InvalidRequest, at + "/$retainKeys: expected a list");
    std::vector<std::string> gone;
    for (const auto& [key, value] : target) {
      if (std::ranges::find(keep->get_array(), json::value(key)) == keep->get_array().end()) gone.emplace_back(key);
    }
    for (const std::string& key : gone) target.erase(key);
    return {};
  }

  static void remove_primitives(json::object& target, std::string_view list, const json::value& gone) {
    json::value* found = target.if_contains(list);
    if (found == nullptr || !found->is_array() || !gone.is_array()) return;
    json::array left;
    for (json::value& each : found->get_array()) {
      if (std::ranges::find(gone.get_array(), each) == gone.get_array().end()) left.push_back(std::move(each));
    }
    *found = std::move(left);
  }

  Result<void> field(json::object& target, std::string_view key, const json::value& value, const std::string& at,
                     int depth) {
    if (value.is_null()) {
      target.erase(key);
      return {};
    }
    if (const json::object* patch = value.if_object()) {
      if (directive_of(*patch) == "delete") {
        target.erase(key);
        return {};
      }
      json::value& slot = target[key];
      if (!slot.is_object()) slot.emplace_object();
      return into(slot.get_object(), *patch, at, depth + 1);
    }
    if (const json::array* patch = value.if_array()) return list(target[key], key, *patch, at, depth);
    target[key] = value;
    return {};
  }

  Result<void> list(json::value& slot, std::string_view key, const json::array& patch, const std::string& at,
                    int depth) {
    const bool replaces = std::ranges::any_of(patch, [](const json::value& each) {
      return each.is_object() && directive_of(each.get_object()) == "replace";
    });
    if (!slot.is_array()) slot.emplace_array();
    json::array& target = slot.get_array();
    if (is_set_list(key) && !replaces) {
      for (const json::value& each : patch) {
        if (std::ranges::find(target, each) == target.end()) target.push_back(each);
      }
      return {};
    }
    const std::string_view identity = merge_key_of(key, patch);
    if (replaces || identity.empty()) {
      target = plain(patch).as_array();
      return {};
    }
    for (std::size_t i = 0; i < patch.size(); ++i) {
      const std::string here = at + "/" + std::to_string(i);
      const json::object* element = patch[i].if_object();
      const json::value* id = element == nullptr ? nullptr : element->if_contains(identity);
      if (id == nullptr) return fail(Code::InvalidRequest, here + ": needs a " + std::string(identity));
      if (auto done = merge_element(target, identity, *id, *element, here, depth); !done) return done;
    }
    return {};
  }

  Result<void> merge_element(json::array& target, std::string_view identity, const json::value& id,
                             const json::object& element, const std::string& at, int depth) {
    const auto same = std::ranges::find_if(target, [&](const json::value& each) {
      const json::object* object = each.if_object();
      const json::value* theirs = object == nullptr ? nullptr : object->if_contains(identity);
      return theirs != nullptr && *theirs == id;
    });
    if (directive_of(element) == "delete") {
      if (same != target.end()) target.erase(same);
      return {};
    }
    if (same != target.end()) return into(same->get_object(), element, at, depth + 1);
    target.push_back(plain(element));
    return {};
  }

  // Elements named by the directive stand in its order; the others keep their places behind those they followed.
  static void order(json::object& target, std::string_view field, const json::value& wanted) {
    json::value* found = target.if_contains(field);
    if (found == nullptr || !found->is_array() || !wanted.is_array()) return;
    const std::string_view identity = merge_key_of(field, wanted.get_array());
    const auto place = [&](const json::value& each) -> std::size_t {
      const auto& list = wanted.get_array();
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (identity.empty() ? list[i] == each : id_of(list[i], identity) == id_of(each, identity)) return i;
      }
      return list.size();
    };
    std::vector<std::pair<std::pair<std::size_t, std::size_t>, json::value>> items;
    std::size_t last = 0;
    for (json::value& each : found->get_array()) {
      const std::size_t at = place(each);
      last = at < wanted.get_array().size() ? at : last;
      items.emplace_back(std::pair(last, items.size()), std::move(each));
    }
    std::ranges::sort(items, {}, [](const auto& item) { return item.first; });
    json::array out;
    for (auto& [at, each] : items) out.push_back(std::move(each));
    *found = std::move(out);
  }

  static json::value id_of(const json::value& element, std::string_view identity) {
    const json::object* object = element.if_object();
    const json::value* id = object == nullptr ? nullptr : object->if_contains(identity);
    return id == nullptr ? json::value() : *id;
  }
};

}  // namespace

std::string_view merge_key_of(std::string_view field, const json::array& elements) {
  if (field == "ports") {
    const json::object* first = elements.empty() ? nullptr : elements.front().if_object();
    return first != nullptr && !first->contains("containerPort") && first->contains("port") ? "port" : "containerPort";
  }
  for (const auto& [name, key] : kKeys) {
    if (name == field) return key;
  }
  return {};
}

void merge_patch(json::value& target, const json::value& patch) {
  const json::object* changes = patch.if_object();
  if (changes == nullptr) {
    target = patch;
    return;
  }
  if (!target.is_object()) target.emplace_object();
  json::object& object = target.get_object();
  for (const auto& [key, value] : *changes) {
    if (value.is_null()) {
      object.erase(key);
    } else {
      merge_patch(object[key], value);
    }
  }
}

Result<void> strategic_merge_patch(json::object& target, const json::object& patch) {
  return StrategicMerge().into(target, patch, "", 0);
}

json::object merge_patch_between(const json::object& from, const json::object& to) {
  json::object patch;
  for (const auto& [key, value] : from) {
    if (!to.contains(key)) patch[key] = nullptr;
  }
  for (const auto& [key, value] : to) {
    const json::value* old = from.if_contains(key);
    if (old != nullptr && *old == value) continue;
    if (old != nullptr && old->is_object() && value.is_object()) {
      patch[key] = merge_patch_between(old->get_object(), value.get_object());
    } else {
      patch[key] = value;
    }
  }
  return patch;
}

}  // namespace osb::kubernetes
