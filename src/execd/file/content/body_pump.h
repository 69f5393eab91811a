#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "async/net.h"
#include "base/error.h"
#include "execd/file/file_pool.h"

namespace osb::execd {

// Takes pieces from a body and hands them on in large blocks to a function that blocks: the next block is collected
// while one is being written, so that socket and disk are busy at the same time.
//
// `read` gives the next piece, empty at the end. `write` runs on the pool, one call at a time; the last call has `last`
// set and comes in any case, so that small bodies cost one hop. Both are used until the call returns.
struct BodyPump {
  FilePool pool;
  std::function<net::awaitable<Result<std::string_view>>()> read;
  std::function<Result<void>(std::string_view block, bool last)> write;

  net::awaitable<Result<void>> run();
};

}  // namespace osb::execd
