#pragma once

#include "execd/file/file_context.h"
#include "http/router.h"

namespace osb::execd {

// The /files and /directories routes of execd. Calls that may take long run on the pool; a single lstat or open stays
// on the loop, where it takes a microsecond against the forty of a hop to a thread and back.
void add_file_routes(http::Router& router, const FileContext& context);

}  // namespace osb::execd
