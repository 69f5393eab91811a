#pragma once

#include "async/net.h"
#include "execd/file/file_context.h"
#include "http/message.h"

namespace osb::execd {

// An addition to the contract: a whole directory in one request, as an uncompressed tar archive.

// GET /directories/archive?path=: the tree below the directory (a symlink to one is followed), see TreeArchive.
net::awaitable<http::Response> download_archive(const FileContext& context, http::Request& request);

// POST /directories/archive?path=: unpacks the body into the directory, which is made if it is missing, see Unpacker.
// 400 INVALID_FILE if it is no tar archive or an entry leads out. Entries complete before an error stay.
net::awaitable<http::Response> upload_archive(const FileContext& context, http::Request& request);

}  // namespace osb::execd
