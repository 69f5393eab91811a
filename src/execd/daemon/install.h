#pragma once

#include <string>

#include "base/error.h"

namespace osb::execd {

// Copies execd and bootstrap.sh into the directory `to`, for the sandbox's container: how a pod's first container
// provides them. `program` is this one; bootstrap.sh lies beside it. Replaces files that are there, each in one step.
Result<void> install(const std::string& program, const std::string& to);

}  // namespace osb::execd
