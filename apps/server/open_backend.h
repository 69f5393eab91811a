#pragma once

#include <memory>

#include <boost/asio/io_context.hpp>

#include "config/server_config.h"
#include "runtime/backend.h"

namespace osb::server {

// The backend that [runtime] type names. A container engine must be there and able to do what the configuration wants
// of it; `io` runs until that is known.
Result<std::unique_ptr<runtime::Backend>> open_backend(net::io_context& io, const config::ServerConfig& config);

}  // namespace osb::server
