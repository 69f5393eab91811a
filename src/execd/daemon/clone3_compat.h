#pragma once

#include <string_view>

#include "base/error.h"

namespace osb::execd {

// EXECD_CLONE3_COMPAT: some container runtimes forbid clone3 with an error that libc takes for final. A seccomp filter
// turns it into ENOSYS, after which libc falls back to clone. The filter and no_new_privs stay for this process, all
// its threads and all children (sudo no longer works there).
enum class Clone3Compat { Off, On, Reexec };

// Spaces around it and case do not count.
Result<Clone3Compat> parse_clone3_compat(std::string_view value);

Result<void> forbid_clone3();

// main calls it first, before there are threads. `value` is the variable's. Reexec replaces the process by a new one
// (with `argv`) whose libc has never seen clone3 work, and marks the environment so that this happens once.
Result<void> apply_clone3_compat(std::string_view value, char** argv);

}  // namespace osb::execd
