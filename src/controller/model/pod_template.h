#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "controller/model/batch_sandbox.h"
#include "controller/model/pool.h"

namespace osb::controller {

// Pods as the controllers create them. Errors name the field of the template or patch that does not fit.
Result<json::object> replica_pod(const BatchSandbox& sandbox, int index);
std::string replica_name(const BatchSandbox& sandbox, int index);
Result<json::object> pool_pod(const Pool& pool);

// A name as the value of a label: at most 63 characters. Longer ones end with a hash of the whole.
std::string label_value(const std::string& name);

// Puts the whole list of finalizers into a merge patch, with or without one of them. The patch has to carry the version
// of `current`, so that finalizers of others are not lost.
void set_finalizer(json::object& patch, const json::object& current, std::string_view name, bool present);

}  // namespace osb::controller
