#pragma once

#include <string>
#include <vector>

#include "controller/model/batch_sandbox.h"
#include "controller/model/pool.h"

namespace osb::controller {

// The pool for a sandbox with poolRef "*": one whose pods have an image of the sandbox's template, requests that are at
// least as large, and fit its node selector and required node affinity. Among these the one with the smallest part of
// its pods given away, then the smaller name. Empty: none fits. A sandbox without a template fits every pool.
std::string choose_pool(const BatchSandbox& sandbox, const std::vector<Pool>& pools);

}  // namespace osb::controller
