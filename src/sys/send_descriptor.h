#pragma once

#include "base/error.h"

namespace osb::sys {

// Hands a descriptor to the other side of a Unix socket, with one byte to carry it. Does not wait: a fresh connection's
// buffer takes one byte at once. The caller keeps its own copy of `fd`.
Result<void> send_descriptor(int socket, int fd);

}  // namespace osb::sys
