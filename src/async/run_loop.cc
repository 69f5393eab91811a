#include "async/run_loop.h"

#include <exception>
#include <utility>

#include <boost/asio/co_spawn.hpp>

namespace osb {

void run_until_done(net::io_context& loop, net::awaitable<void> task) {
  std::exception_ptr thrown;
  net::co_spawn(loop, std::move(task), [&](std::exception_ptr end) {
    thrown = std::move(end);
    loop.stop();
  });
  // A loop that had no work for a moment has stopped, also between two calls: a thread of a BlockingPool may let go of
  // it last. From here on the task is its work.
  loop.restart();
  loop.run();
  loop.restart();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace osb
