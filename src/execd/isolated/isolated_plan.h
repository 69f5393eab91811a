#pragma once

#include <string>

#include "api/execd_isolated.h"
#include "base/error.h"
#include "execd/isolated/isolation_options.h"
#include "execd/isolated/session_spec.h"
#include "execd/path/path.h"

namespace osb::execd {

// The description of a session for a request. Code::InvalidRequest: a path is outside of the list of the options.
// `memory`: what the sandbox may use; overlays are kept in memory and get at most half of it.
Result<SessionSpec> plan_isolated_session(const api::CreateIsolatedSession& request, const IsolationOptions& options,
                                          std::uint64_t memory);

// The variables of `all` that a session's processes get.
Environment isolated_environment(const api::CreateIsolatedSession& request, const Environment& all);

}  // namespace osb::execd
