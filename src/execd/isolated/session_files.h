#pragma once

#include "base/unique_fd.h"
#include "execd/isolated/session_spec.h"

namespace osb::execd {

// Makes this process the session's user and group for good; root otherwise. False and errno where that fails.
bool become_session_user(const SessionSpec& spec);

// Serves the file routes on one connection, in the session's root and as its user, until either side ends it. Paths
// outside of the session's mounts, and those of overlays that do not persist, are refused; writing where that is not
// allowed is a 403.
void serve_session_files(UniqueFd connection, const SessionSpec& spec);

}  // namespace osb::execd
