#pragma once

#include <functional>
#include <memory>

#include "async/net.h"
#include "execd/file/file_pool.h"
#include "execd/file/listing/listing.h"
#include "http/message.h"

namespace osb::execd {

// A 200 with the listing that `open`, called on a thread of the pool, gives. Errors among the first megabyte are
// returned, so an unreadable directory is a 500 and not a broken connection; later ones cut the connection, so that the
// client does not take half for the whole.
net::awaitable<Result<http::Response>> listing_response(FilePool pool,
                                                        std::function<Result<std::unique_ptr<Listing>>()> open);

}  // namespace osb::execd
