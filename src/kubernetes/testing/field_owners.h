#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <boost/json/object.hpp>

namespace osb::kubernetes::testing {

// A leaf of an object: keys, and elements of lists that have an identity as "[name=x]".
using FieldPath = std::vector<std::string>;
using FieldSet = std::set<FieldPath>;

// All leaves but those that identify an object or belong to the server. Lists without identities are one leaf.
FieldSet leaves(const boost::json::object& object, bool keyed_lists);
// The value of a leaf; nullptr when it is not there.
const boost::json::value* leaf(const boost::json::object& object, const FieldPath& path);
// Takes a leaf away, and the maps that become empty by it.
void erase_leaf(boost::json::object& object, const FieldPath& path);

// The last writer of each field of one object, for server-side apply.
class FieldOwners {
 public:
  // A write other than apply: changed leaves belong to the writer alone.
  void wrote(const std::string& manager, const boost::json::object& before, const boost::json::object& after,
             bool keyed_lists);
  // Leaves of `wanted` that another manager owns with another value: "manager: a.b.c".
  std::vector<std::string> conflicts(const std::string& manager, const boost::json::object& current,
                                     const boost::json::object& wanted, bool keyed_lists) const;
  // The manager applies `wanted` from now on, and alone has the leaves whose values it changes. Returns the leaves that
  // it gave up and that no other manager owns.
  FieldSet applied(const std::string& manager, const boost::json::object& current, const boost::json::object& wanted,
                   bool keyed_lists);

 private:
  std::map<std::string, FieldSet> fields_;
};

}  // namespace osb::kubernetes::testing
