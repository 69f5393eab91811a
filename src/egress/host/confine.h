#pragma once

#include "base/error.h"

namespace osb::egress {

// For good: this process opens no file, starts no process and makes no memory executable any more; it has what it
// needs to serve sockets. It reads what hostile code sends. Call it once everything is set up, before the first
// message.
Result<void> confine_process();

}  // namespace osb::egress
