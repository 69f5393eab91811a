#pragma once

#include <boost/asio/awaitable.hpp>

namespace osb {

// The project's name for Asio, and all that a header which declares coroutines needs to include.
namespace net = boost::asio;

}  // namespace osb
