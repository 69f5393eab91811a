#pragma once

#include <string>

#include "async/blocking_pool.h"
#include "execd/file/owner_names.h"
#include "execd/file/path.h"
#include "http/message.h"

namespace osb::execd {

// What the file routes work with; all of it outlives them.
struct FileContext {
  BlockingPool& pool;
  OwnerDatabase& owners;
  const Environment& env;  // the daemon's, as it was at its start
  std::string cwd;         // where relative paths begin

  // A path of a request (see expand_path). What cannot be a path is a 500 in this contract, like any other failure but
  // "not there".
  Result<std::string> resolve(std::string_view path) const;
};

// Error responses of the file API. A reason that is set wins; else "not there" is 404 FILE_NOT_FOUND, a bad request 400
// INVALID_REQUEST_BODY, everything else 500 RUNTIME_ERROR.
http::Response file_problem(const Error& error);

}  // namespace osb::execd
