#pragma once

#include "execd/file/file_context.h"
#include "http/router.h"

namespace osb::execd {

// The /files and /directories routes of execd. Calls that may take long run on the pool; a single lstat or open stays
// on the loop, where it takes a microsecond against the forty of a hop to a thread and back.
//
// The same routes below /v1/filesystem/{uid}/{gid} act as that user, without other groups: the kernel checks that
// user's permissions, and new files belong to that user. All their calls run on the pool, see IdentityScope.
void add_file_routes(http::Router& router, const FileContext& context);

}  // namespace osb::execd
