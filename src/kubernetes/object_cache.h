#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kubernetes/object.h"

namespace osb::kubernetes {

// The objects of one type as they were last seen, on one loop, without I/O. Objects never go back to an older version,
// whether they come from a watch, a list, or the answer to a write of our own.
class ObjectCache {
 public:
  // Called after the cache has changed. `before` null: new; `after` null: gone.
  using Handler = std::function<void(const ObjectPtr& before, const ObjectPtr& after)>;
  // The values under which an index lists an object.
  using IndexFunction = std::function<std::vector<std::string>(const json::object&)>;

  ObjectPtr get(const Key& key) const;  // null: not there
  std::vector<ObjectPtr> list(std::string_view ns = {}) const;
  std::size_t size() const { return objects_.size(); }

  // Both before the first object comes.
  void on_change(Handler handler) { handlers_.push_back(std::move(handler)); }
  void add_index(std::string name, IndexFunction values);
  // Objects of an index with this value, in the order of their keys.
  std::vector<ObjectPtr> find(std::string_view index, std::string_view value) const;

  // A whole list of that version: objects that are not in it are gone, except those that we have written since. It
  // may be older than the objects here: a cluster can be restored from a backup.
  void replace(const std::vector<ObjectPtr>& items, std::string_view version);
  // Events of a watch.
  void apply(const ObjectPtr& object);
  void remove(const json::object& object);
  void progress(std::string_view version);  // a bookmark

  // The answer to a write of our own, before its event comes: the next read sees it. It is dropped if the watch is
  // already beyond it: the object may have been deleted since.
  void observe(const ObjectPtr& object);
  // The answer to our own deletion of an object that is gone at once.
  void forget(const Key& key, std::string_view uid);

  // Where a watch goes on; empty: a list is needed.
  const std::string& version() const { return version_; }
  void forget_version() { version_.clear(); }

 private:
  struct Index {
    IndexFunction values;
    std::map<std::string, std::set<Key>, std::less<>> keys;
  };
  void set(const Key& key, ObjectPtr object);
  void drop(const Key& key);
  void advance(std::string_view version);
  bool beyond(const json::object& object) const;
  bool written_since(const Key& key, const json::object& object, std::string_view version) const;

  std::map<Key, ObjectPtr> objects_;
  std::map<std::string, Index, std::less<>> indices_;
  std::vector<Handler> handlers_;
  std::set<Key> own_;  // from answers to our own writes, whose events have not come yet
  std::string version_;
};

}  // namespace osb::kubernetes
