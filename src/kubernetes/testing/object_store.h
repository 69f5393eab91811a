#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "kubernetes/client.h"
#include "kubernetes/object.h"
#include "kubernetes/resource.h"
#include "kubernetes/testing/field_owners.h"

namespace osb::kubernetes::testing {

// A type of objects that the server has.
struct StoredType {
  Resource resource;
  bool status = false;  // has the status subresource
  bool scale = false;   // has the scale subresource
  bool custom = false;  // defined by a CRD: generations count, strategic patches are refused
};

struct Change {
  std::uint64_t version = 0;
  const StoredType* type = nullptr;
  ObjectPtr before, after;  // one of them null: created, removed. A removed object has the version of its removal.
};

// The objects of an API server and its rules: versions, conflicts, generations, finalizers, owners. Errors have the
// reasons of the real server.
class ObjectStore {
 public:
  explicit ObjectStore(const Clock& clock) : clock_(clock) {}

  void add_type(StoredType type);
  const StoredType* find_type(std::string_view group, std::string_view version, std::string_view plural) const;

  Result<ObjectPtr> get(const StoredType& type, const Key& key) const;
  std::vector<ObjectPtr> list(const StoredType& type, std::string_view ns) const;  // in the order of keys
  Result<ObjectPtr> create(const StoredType& type, const std::string& ns, json::object object,
                           const std::string& manager = "");
  // A PUT, or the result of a patch: `subresource` is empty, "status" or "scale".
  Result<ObjectPtr> update(const StoredType& type, const Key& key, json::object object, std::string_view subresource,
                           const std::string& manager = "");
  Result<ObjectPtr> apply(const StoredType& type, const Key& key, json::object object, std::string_view subresource,
                          const std::string& manager, bool force);
  // The object as it is afterwards: with a deletion timestamp, or as it was last.
  Result<ObjectPtr> remove(const StoredType& type, const Key& key, const DeleteOptions& options);

  std::uint64_t version() const { return version_; }
  // Changes behind a version, oldest first. They are kept until compact().
  const std::deque<Change>& history() const { return history_; }
  // Versions below this one are no longer kept.
  std::uint64_t oldest() const { return oldest_; }
  void compact();

  std::function<void()> on_change = [] {};

 private:
  using Place = std::pair<const StoredType*, Key>;
  ObjectPtr store(const StoredType& type, const Key& key, json::object object);
  void erase(const StoredType& type, const Key& key);
  void collect_dependents(const std::string& owner_uid);
  void orphan_dependents(const std::string& owner_uid);
  void finish_foreground();
  bool exists(std::string_view uid) const;
  std::vector<Place> dependents_of(std::string_view uid) const;
  std::string now_text() const;

  const Clock& clock_;
  std::deque<StoredType> types_;
  std::map<const StoredType*, std::map<Key, ObjectPtr>> objects_;
  std::map<std::string, FieldOwners, std::less<>> owners_;  // by UID
  std::deque<Change> history_;
  std::uint64_t version_ = 1000;
  std::uint64_t oldest_ = 1000;
};

}  // namespace osb::kubernetes::testing
