#pragma once

// The whole synchronous API. Coroutines: opensandbox/async.h.
//
// Every call returns Result<T> (error.h). Objects are handles: cheap to copy, thread-safe unless their comment says
// otherwise. Callbacks run on the thread that made the call, which may use the library from there.

#include "opensandbox/code.h"        // IWYU pragma: export
#include "opensandbox/commands.h"    // IWYU pragma: export
#include "opensandbox/connection.h"  // IWYU pragma: export
#include "opensandbox/egress.h"      // IWYU pragma: export
#include "opensandbox/error.h"       // IWYU pragma: export
#include "opensandbox/files.h"       // IWYU pragma: export
#include "opensandbox/isolated.h"    // IWYU pragma: export
#include "opensandbox/manager.h"     // IWYU pragma: export
#include "opensandbox/policies.h"    // IWYU pragma: export
#include "opensandbox/pool.h"        // IWYU pragma: export
#include "opensandbox/pool_redis.h"  // IWYU pragma: export
#include "opensandbox/pty.h"         // IWYU pragma: export
#include "opensandbox/sandbox.h"     // IWYU pragma: export
#include "opensandbox/types.h"       // IWYU pragma: export
