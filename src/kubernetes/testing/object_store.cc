#include "kubernetes/testing/object_store.h"

#include <algorithm>

#include <boost/json/array.hpp>

#include "base/id.h"
#include "base/time.h"
#include "kubernetes/api_status.h"
#include "kubernetes/patch.h"

namespace osb::kubernetes::testing {
namespace {

constexpr std::string_view kForeground = "foregroundDeletion";
constexpr int kDefaultGrace = 30;
// Fields of the metadata that only the server writes.
constexpr std::string_view kServerFields[] = {"name",       "namespace",         "uid",
                                              "generation", "creationTimestamp", "deletionTimestamp",
                                              "selfLink",   "resourceVersion",   "deletionGracePeriodSeconds"};

Failure refused(Code code, std::string_view reason, std::string message) {
  Error error(code, std::move(message));
  error.reason = reason;
  return Failure(std::move(error));
}

std::string named(const StoredType& type, const Key& key) {
  return type.resource.to_string() + " \"" + key.name + "\"";
}

Failure conflict(const StoredType& type, const Key& key, const std::string& why) {
  return refused(Code::Conflict, reasons::kConflict,
                 "Operation cannot be fulfilled on " + named(type, key) + ": " + why);
}

bool has_finalizers(const json::object& object) {
  const json::value* list = find(object, {"metadata", "finalizers"});
  return list != nullptr && list->is_array() && !list->get_array().empty();
}

void edit_finalizer(json::object& object, std::string_view name, bool present) {
  json::value& list = make_object(object, {"metadata"})["finalizers"];
  if (!list.is_array()) list.emplace_array();
  json::array& all = list.get_array();
  const auto found = std::ranges::find(all, json::value(name));
  if (present && found == all.end()) all.emplace_back(name);
  if (!present && found != all.end()) all.erase(found);
  if (all.empty()) make_object(object, {"metadata"}).erase("finalizers");
}

// Without the fields that change with each write.
json::object content(const json::object& object) {
  json::object out = object;
  make_object(out, {"metadata"}).erase("resourceVersion");
  make_object(out, {"metadata"}).erase("generation");
  return out;
}

// All but metadata and status: a change of it is a new generation.
bool same_spec(const json::object& a, const json::object& b) {
  json::object left = a, right = b;
  for (json::object* each : {&left, &right}) {
    each->erase("metadata");
    each->erase("status");
  }
  return left == right;
}

bool owned_by(const json::object& object, std::string_view uid) {
  const json::value* all = find(object, {"metadata", "ownerReferences"});
  if (all == nullptr || !all->is_array()) return false;
  return std::ranges::any_of(all->get_array(), [&](const json::value& each) {
    return each.is_object() && text(each.get_object(), {"uid"}) == uid;
  });
}

bool valid_name(std::string_view name) {
  return !name.empty() && name.size() <= 253 &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") == std::string_view::npos &&
         name.front() != '-' && name.back() != '-';
}

}  // namespace

void ObjectStore::add_type(StoredType type) {
  if (find_type(type.resource.group, type.resource.version, type.resource.plural) == nullptr) {
    types_.push_back(std::move(type));
  }
}

const StoredType* ObjectStore::find_type(std::string_view group, std::string_view version,
                                         std::string_view plural) const {
  for (const StoredType& each : types_) {
    const Resource& resource = each.resource;
    if (resource.group == group && resource.version == version && resource.plural == plural) return &each;
  }
  return nullptr;
}

std::string ObjectStore::now_text() const {
  return format_timestamp(std::chrono::floor<std::chrono::seconds>(clock_.now()));
}

Result<ObjectPtr> ObjectStore::get(const StoredType& type, const Key& key) const {
  if (const auto all = objects_.find(&type); all != objects_.end()) {
    if (const auto found = all->second.find(key); found != all->second.end()) return found->second;
  }
  return refused(Code::NotFound, reasons::kNotFound, named(type, key) + " not found");
}

std::vector<ObjectPtr> ObjectStore::list(const StoredType& type, std::string_view ns) const {
  std::vector<ObjectPtr> out;
  const auto all = objects_.find(&type);
  if (all == objects_.end()) return out;
  for (const auto& [key, object] : all->second) {
    if (ns.empty() || key.ns == ns) out.push_back(object);
  }
  return out;
}

ObjectPtr ObjectStore::store(const StoredType& type, const Key& key, json::object object) {
  make_object(object, {"metadata"})["resourceVersion"] = std::to_string(++version_);
  ObjectPtr& slot = objects_[&type][key];
  const ObjectPtr before = slot;
  slot = std::make_shared<const json::object>(std::move(object));
  history_.push_back({version_, &type, before, slot});
  const ObjectPtr after = slot;
  on_change();
  return after;
}

void ObjectStore::erase(const StoredType& type, const Key& key) {
  const ObjectPtr object = objects_[&type][key];
  objects_[&type].erase(key);
  json::object last = *object;
  make_object(last, {"metadata"})["resourceVersion"] = std::to_string(++version_);
  history_.push_back({version_, &type, std::make_shared<const json::object>(std::move(last)), nullptr});
  on_change();
  const std::string uid(uid_of(*object));
  owners_.erase(uid);
  collect_dependents(uid);
  finish_foreground();
}

void ObjectStore::compact() {
  history_.clear();
  oldest_ = version_;
}

Result<ObjectPtr> ObjectStore::create(const StoredType& type, const std::string& ns, json::object object,
                                      const std::string& manager) {
  json::object& metadata = make_object(object, {"metadata"});
  const std::string given(text(metadata, {"namespace"}));
  if (type.resource.namespaced && !given.empty() && given != ns) {
    return refused(Code::InvalidRequest, "BadRequest",
                   "the namespace of the provided object does not match the request");
  }
  Key key{type.resource.namespaced ? ns : "", std::string(text(metadata, {"name"}))};
  if (key.name.empty() && !text(metadata, {"generateName"}).empty()) {
    key.name = std::string(text(metadata, {"generateName"})) + new_hex_id().substr(0, 5);
  }
  if (!valid_name(key.name)) {
    return refused(Code::Unprocessable, reasons::kInvalid,
                   type.resource.kind + " \"" + key.name + "\" is invalid: metadata.name: Invalid value");
  }
  if (!text(metadata, {"resourceVersion"}).empty()) {
    return refused(Code::InvalidRequest, "BadRequest", "resourceVersion should not be set on objects to be created");
  }
  if (get(type, key)) {
    return refused(Code::Conflict, reasons::kAlreadyExists, named(type, key) + " already exists");
  }
  for (const std::string_view field : kServerFields) metadata.erase(field);
  metadata["name"] = key.name;
  if (type.resource.namespaced) metadata["namespace"] = key.ns;
  metadata["uid"] = new_uuid();
  metadata["creationTimestamp"] = now_text();
  if (type.custom) metadata["generation"] = 1;
  if (type.status) object.erase("status");
  if (type.resource == resources::kPods) object["status"] = {{"phase", "Pending"}};
  owners_[std::string(text(metadata, {"uid"}))].wrote(manager, {}, object, !type.custom);
  return store(type, key, std::move(object));
}

Result<ObjectPtr> ObjectStore::update(const StoredType& type, const Key& key, json::object object,
                                      std::string_view subresource, const std::string& manager) {
  const auto found = get(type, key);
  if (!found) return found;
  const json::object& before = **found;
  json::object& metadata = make_object(object, {"metadata"});
  const std::string wanted(text(metadata, {"resourceVersion"}));
  if (!wanted.empty() && wanted != "0" && wanted != version_of(before)) {
    return conflict(type, key,
                    "the object has been modified; please apply your changes to the latest version and try again");
  }
  if (const auto uid = text(metadata, {"uid"}); !uid.empty() && uid != uid_of(before)) {
    return conflict(type, key, "Precondition failed: UID in precondition: " + std::string(uid));
  }
  if (const auto name = text(metadata, {"name"}); !name.empty() && name != key.name) {
    return refused(Code::InvalidRequest, "BadRequest", "the name of the object does not match the name on the URL");
  }
  for (const std::string_view field : kServerFields) {
    const json::value* old = find(before, {"metadata", field});
    if (old != nullptr) {
      metadata[field] = *old;
    } else {
      metadata.erase(field);
    }
  }
  if (subresource == "status") {
    json::object whole = before;
    if (const json::value* status = object.if_contains("status")) whole["status"] = *status;
    object = std::move(whole);
  } else if (type.status) {
    const json::value* status = before.if_contains("status");
    if (status != nullptr) {
      object["status"] = *status;
    } else {
      object.erase("status");
    }
  }
  if (is_deleting(before)) {
    const json::value* list = find(object, {"metadata", "finalizers"});
    for (std::size_t i = 0; list != nullptr && list->is_array() && i < list->get_array().size(); ++i) {
      const json::value& each = list->get_array()[i];
      if (each.is_string() && has_finalizer(before, each.get_string())) continue;
      return refused(Code::Unprocessable, reasons::kInvalid,
                     named(type, key) + " is invalid: no new finalizers can be added if the object is being deleted");
    }
  }
  if (content(object) == content(before)) return found;
  if (type.custom && !same_spec(before, object)) {
    make_object(object, {"metadata"})["generation"] = number(before, {"metadata", "generation"}) + 1;
  }
  owners_[std::string(uid_of(before))].wrote(manager, before, object, !type.custom);
  const bool ends =
      is_deleting(object) && !has_finalizers(object) && number(object, {"metadata", "deletionGracePeriodSeconds"}) == 0;
  ObjectPtr after = store(type, key, std::move(object));
  if (ends) erase(type, key);
  return after;
}

Result<ObjectPtr> ObjectStore::apply(const StoredType& type, const Key& key, json::object object,
                                     std::string_view subresource, const std::string& manager, bool force) {
  const bool keyed = !type.custom;
  auto found = get(type, key);
  if (!found && subresource.empty()) {
    make_object(object, {"metadata"})["name"] = key.name;
    const json::object wanted = object;
    auto made = create(type, key.ns, std::move(object), manager);
    if (!made) return made;
    FieldOwners& owners = owners_[std::string(uid_of(**made))];
    owners = {};
    owners.applied(manager, {}, wanted, keyed);
    return made;
  }
  if (!found) return found;
  const json::object current = **found;
  FieldOwners owners = owners_[std::string(uid_of(current))];
  if (const auto conflicts = owners.conflicts(manager, current, object, keyed); !conflicts.empty() && !force) {
    return refused(
        Code::Conflict, reasons::kConflict,
        "Apply failed with " + std::to_string(conflicts.size()) + " conflict: conflict with " + conflicts.front());
  }
  const FieldSet gone = owners.applied(manager, current, object, keyed);
  json::object merged = current;
  if (keyed) {
    if (auto done = strategic_merge_patch(merged, object); !done) return Failure(done.error());
  } else {
    json::value whole(std::move(merged));
    merge_patch(whole, object);
    merged = std::move(whole.get_object());
  }
  for (const FieldPath& path : gone) erase_leaf(merged, path);
  auto done = update(type, key, std::move(merged), subresource, manager);
  if (done) owners_[std::string(uid_of(current))] = std::move(owners);
  return done;
}

Result<ObjectPtr> ObjectStore::remove(const StoredType& type, const Key& key, const DeleteOptions& options) {
  const auto found = get(type, key);
  if (!found) return found;
  if (!options.uid.empty() && options.uid != uid_of(**found)) {
    return conflict(type, key, "Precondition failed: UID in precondition: " + options.uid);
  }
  if (!options.version.empty() && options.version != version_of(**found)) {
    return conflict(type, key, "Precondition failed: ResourceVersion in precondition: " + options.version);
  }
  json::object object = **found;
  const std::string uid(uid_of(object));
  if (options.propagation == "Orphan") orphan_dependents(uid);
  if (options.propagation == "Foreground" && !dependents_of(uid).empty()) edit_finalizer(object, kForeground, true);
  // A pod that runs somewhere ends there first; its kubelet then deletes it without grace.
  const bool runs = type.resource == resources::kPods && !text(object, {"spec", "nodeName"}).empty();
  const int grace = runs ? options.grace_seconds.value_or(kDefaultGrace) : 0;
  if (!has_finalizers(object) && grace == 0) {
    erase(type, key);
    return *found;
  }
  json::object& metadata = make_object(object, {"metadata"});
  const bool began = is_deleting(object);
  metadata["deletionGracePeriodSeconds"] = grace;
  if (!began) metadata["deletionTimestamp"] = now_text();
  if (!began && type.custom) metadata["generation"] = number(object, {"metadata", "generation"}) + 1;
  if (object == **found) return *found;
  ObjectPtr after = store(type, key, std::move(object));
  if (has_finalizer(*after, kForeground)) {
    for (const auto& [dependent, place] : dependents_of(uid)) {
      (void)remove(*dependent, place, {.propagation = "Foreground"});
    }
    finish_foreground();
  }
  return after;
}

bool ObjectStore::exists(std::string_view uid) const {
  for (const auto& [type, all] : objects_) {
    for (const auto& [key, object] : all) {
      if (uid_of(*object) == uid) return true;
    }
  }
  return false;
}

std::vector<ObjectStore::Place> ObjectStore::dependents_of(std::string_view uid) const {
  std::vector<Place> out;
  for (const auto& [type, all] : objects_) {
    for (const auto& [key, object] : all) {
      if (owned_by(*object, uid)) out.emplace_back(type, key);
    }
  }
  return out;
}

void ObjectStore::collect_dependents(const std::string& owner_uid) {
  for (const auto& [type, key] : dependents_of(owner_uid)) {
    const auto object = get(*type, key);
    if (!object || is_deleting(**object)) continue;
    const json::array& owners = find(**object, {"metadata", "ownerReferences"})->get_array();
    const bool kept = std::ranges::any_of(
        owners, [&](const json::value& each) { return each.is_object() && exists(text(each.get_object(), {"uid"})); });
    if (!kept) (void)remove(*type, key, {});
  }
}

void ObjectStore::orphan_dependents(const std::string& owner_uid) {
  for (const auto& [type, key] : dependents_of(owner_uid)) {
    json::object object = **get(*type, key);
    json::array& owners = make_object(object, {"metadata"})["ownerReferences"].get_array();
    json::array left;
    for (json::value& each : owners) {
      if (text(each.get_object(), {"uid"}) != owner_uid) left.push_back(std::move(each));
    }
    owners = std::move(left);
    store(*type, key, std::move(object));
  }
}

void ObjectStore::finish_foreground() {
  std::vector<Place> done;
  for (const auto& [type, all] : objects_) {
    for (const auto& [key, object] : all) {
      if (is_deleting(*object) && has_finalizer(*object, kForeground) && dependents_of(uid_of(*object)).empty()) {
        done.emplace_back(type, key);
      }
    }
  }
  for (const auto& [type, key] : done) {
    const auto found = get(*type, key);
    if (!found) continue;
    json::object object = **found;
    edit_finalizer(object, kForeground, false);
    (void)update(*type, key, std::move(object), "");
  }
}

}  // namespace osb::kubernetes::testing
