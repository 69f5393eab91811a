#pragma once

#include "async/net.h"
#include "execd/file/file_context.h"
#include "http/message.h"

namespace osb::execd {

// GET /files/download: a whole file, a byte range, or a range of lines.
net::awaitable<http::Response> download_file(const FileContext& context, http::Request& request);

}  // namespace osb::execd
