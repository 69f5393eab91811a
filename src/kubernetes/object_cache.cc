#include "kubernetes/object_cache.h"

#include <utility>

namespace osb::kubernetes {

ObjectPtr ObjectCache::get(const Key& key) const {
  const auto found = objects_.find(key);
  return found == objects_.end() ? nullptr : found->second;
}

std::vector<ObjectPtr> ObjectCache::list(std::string_view ns) const {
  std::vector<ObjectPtr> out;
  if (ns.empty()) out.reserve(objects_.size());
  for (auto at = ns.empty() ? objects_.begin() : objects_.lower_bound(Key{std::string(ns), ""});
       at != objects_.end() && (ns.empty() || at->first.ns == ns); ++at) {
    out.push_back(at->second);
  }
  return out;
}

void ObjectCache::add_index(std::string name, IndexFunction values) {
  indices_.emplace(std::move(name), Index{std::move(values), {}});
}

std::vector<ObjectPtr> ObjectCache::find(std::string_view index, std::string_view value) const {
  std::vector<ObjectPtr> out;
  const auto found = indices_.find(index);
  if (found == indices_.end()) return out;
  const auto keys = found->second.keys.find(value);
  if (keys == found->second.keys.end()) return out;
  for (const Key& key : keys->second) out.push_back(objects_.at(key));
  return out;
}

void ObjectCache::set(const Key& key, ObjectPtr object) {
  ObjectPtr& slot = objects_[key];
  const ObjectPtr before = std::exchange(slot, object);
  for (auto& [name, index] : indices_) {
    if (before) {
      for (const std::string& value : index.values(*before)) {
        auto& keys = index.keys[value];
        keys.erase(key);
        if (keys.empty()) index.keys.erase(value);
      }
    }
    if (!object) continue;
    for (std::string& value : index.values(*object)) index.keys[std::move(value)].insert(key);
  }
  if (!object) objects_.erase(key);
  for (const Handler& handler : handlers_) handler(before, object);
}

void ObjectCache::drop(const Key& key) {
  if (objects_.contains(key)) set(key, nullptr);
}

void ObjectCache::advance(std::string_view version) {
  const auto now = parse_version(version_), next = parse_version(version);
  if (version.empty() || (now && next && *next < *now)) return;
  version_ = version;
}

bool ObjectCache::beyond(const json::object& object) const {
  const auto seen = parse_version(version_), its = parse_version(version_of(object));
  return seen && its && *its <= *seen;
}

bool ObjectCache::written_since(const Key& key, const json::object& object, std::string_view version) const {
  const auto limit = parse_version(version), its = parse_version(version_of(object));
  return own_.contains(key) && limit && its && *its > *limit;
}

void ObjectCache::replace(const std::vector<ObjectPtr>& items, std::string_view version) {
  std::set<Key> listed;
  for (const ObjectPtr& each : items) {
    Key key = key_of(*each);
    const ObjectPtr known = get(key);
    const bool same = known && version_of(*known) == version_of(*each);
    if (!same && !(known && written_since(key, *known, version))) set(key, each);
    listed.insert(std::move(key));
  }
  std::vector<Key> gone;
  for (const auto& [key, object] : objects_) {
    if (!listed.contains(key) && !written_since(key, *object, version)) gone.push_back(key);
  }
  for (const Key& key : gone) drop(key);
  std::erase_if(own_, [&](const Key& key) {
    const ObjectPtr known = get(key);
    return !known || !written_since(key, *known, version);
  });
  version_ = version;
}

void ObjectCache::apply(const ObjectPtr& object) {
  const Key key = key_of(*object);
  const ObjectPtr known = get(key);
  const bool same = known && version_of(*known) == version_of(*object);
  if (!known || !is_older(*object, *known)) {
    own_.erase(key);
    if (!same) set(key, object);
  }
  advance(version_of(*object));
}

void ObjectCache::remove(const json::object& object) {
  const Key key = key_of(object);
  // Another object may have the name already, from a write of our own.
  if (const ObjectPtr known = get(key); known && !is_older(object, *known)) {
    own_.erase(key);
    drop(key);
  }
  advance(version_of(object));
}

void ObjectCache::progress(std::string_view version) { advance(version); }

void ObjectCache::observe(const ObjectPtr& object) {
  if (beyond(*object)) return;
  const Key key = key_of(*object);
  const ObjectPtr known = get(key);
  if (known && (is_older(*object, *known) || version_of(*known) == version_of(*object))) return;
  own_.insert(key);
  set(key, object);
}

void ObjectCache::forget(const Key& key, std::string_view uid) {
  if (const ObjectPtr known = get(key); known && uid_of(*known) == uid) drop(key);
}

}  // namespace osb::kubernetes
