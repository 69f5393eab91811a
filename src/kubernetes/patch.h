#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "base/error.h"

namespace osb::kubernetes {

// RFC 7386: maps merge, null removes, everything else replaces.
void merge_patch(boost::json::value& target, const boost::json::value& patch);

// Kubernetes' strategic merge patch, for objects with the fields of core types: lists such as containers, env, volumes
// and volumeMounts merge by the key that identifies an element, finalizers as a set, all other lists are replaced. The
// directives $patch (merge, replace, delete), $deleteFromPrimitiveList and $retainKeys are followed;
// $setElementOrder orders the elements. An error names the field of a patch that does not fit.
Result<void> strategic_merge_patch(boost::json::object& target, const boost::json::object& patch);

// The field whose value identifies an element of the list `field`; empty: such lists are replaced as a whole.
std::string_view merge_key_of(std::string_view field, const boost::json::array& elements);

// The smallest merge patch that turns `from` into `to`; an empty object when they are equal.
boost::json::object merge_patch_between(const boost::json::object& from, const boost::json::object& to);

}  // namespace osb::kubernetes
