#pragma once

#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::execd {

// Descriptors above 2 that our parent left open stay open here and are closed in every program we start: a state
// directory or a socket of the host must not reach the user's processes. Does nothing on kernels before 5.11; spawn()
// closes descriptors by itself, this is for any other code that may start a program.
void keep_inherited_fds_from_children();

// As open_at(AT_FDCWD, ..), except that "/proc/self/fd/N" is a second descriptor of what N has open: it works without
// /proc, for a file outside of our root, and with any permission bits, and it shares N's offset and O_APPEND. Fails
// for a descriptor that is not open, and with `flags` that ask for a directory or for writing for one that is
// neither.
Result<UniqueFd> open_given(const std::string& path, int flags, mode_t mode = 0666);

}  // namespace osb::execd
