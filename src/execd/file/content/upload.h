#pragma once

#include "async/net.h"
#include "execd/file/file_context.h"
#include "http/message.h"

namespace osb::execd {

// POST /files/upload: pairs of a `metadata` part (JSON) and a `file` part, the i-th of the one with the i-th of the
// other. Contents go from the socket to disk as they come and are put in place when the whole request has arrived and
// made sense: a request that breaks off or is malformed changes nothing. (Beyond kMaxStaged files in one request the
// first ones are put in place earlier, because each holds a descriptor.)
net::awaitable<http::Response> upload_files(const FileContext& context, http::Request& request);

// Reads and drops the rest of a body: a client that is still sending would otherwise not see the answer. Gives up after
// a gigabyte.
net::awaitable<void> drain(http::BodySource& body);

}  // namespace osb::execd
