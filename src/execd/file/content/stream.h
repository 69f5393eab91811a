#pragma once

#include <functional>
#include <string>

#include "async/net.h"
#include "base/error.h"
#include "execd/file/file_pool.h"
#include "http/message.h"

namespace osb::execd {

// Something that is made piece by piece with blocking calls: appends to `out` until that has about `limit` bytes; false
// when that was the rest. Runs on threads of the pool, one at a time.
using Producer = std::move_only_function<Result<bool>(std::string& out, std::size_t limit)>;

// A 200 with what the producer makes. The first `commit` bytes are made before the head goes out: an error among them
// is returned, and a result that ends there has a Content-Length. After that the next piece is made while one is being
// sent, and an error cuts the connection, so that the client does not take half for the whole.
net::awaitable<Result<http::Response>> produce_response(FilePool pool, http::Headers headers, Producer producer,
                                                        std::size_t commit);

}  // namespace osb::execd
