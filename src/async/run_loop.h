#pragma once

#include <boost/asio/io_context.hpp>

#include "async/net.h"

namespace osb {

// Runs the loop on this thread until the task has ended, and throws the exception that left it. Other work on the loop
// is left where it stands; the loop can be run again.
void run_until_done(net::io_context& loop, net::awaitable<void> task);

}  // namespace osb
