#pragma once

#include <string>
#include <vector>

#include "execd/file/disk_reserve.h"
#include "execd/file/file_pool.h"
#include "execd/owner/owner_names.h"
#include "execd/path/path.h"
#include "http/message.h"

namespace osb::execd {

// The trees that file routes may name, where they serve less than all. The innermost tree of a path decides.
struct FileTree {
  std::string path;  // absolute and clean
  bool visible = true;
};
using FileScope = std::vector<FileTree>;

// The dependencies of the file routes. Its references outlive the routes; the object may belong to one request (of
// another user than the daemon), so work after the handler's return keeps no reference to it.
struct FileContext {
  FilePool pool;
  OwnerDatabase& owners;
  const Environment& env;            // the daemon's, as it was at its start
  std::string cwd;                   // where relative paths begin
  const FileScope* scope = nullptr;  // null: everything
  DiskReserve reserve = {};

  // A path of a request (see expand_path). A text that is no path is a 500 in this contract, like any other failure but
  // "not there". For another user than the daemon it must not go through links of /proc (see refuse_magic_links).
  Result<std::string> resolve(std::string_view path) const;
};

// Error responses of the file API. A reason that is set wins; else "not there" is 404 FILE_NOT_FOUND, a bad request 400
// INVALID_REQUEST_BODY, everything else 500 RUNTIME_ERROR. A user that we cannot act as is a 503, a disk that is
// nearly full a 507.
http::Response file_problem(const Error& error);

}  // namespace osb::execd
