#pragma once

#include <string>

#include "async/net.h"
#include "base/error.h"
#include "controller/command_line.h"
#include "kubernetes/cluster_config.h"

namespace osb::controller {

// The whole program: waits for the lease and leads for as long as it has it, with health and metrics beside it. Ends
// with an error when the lease is lost: the process ends too, and starts anew without any memory of what it knew.
net::awaitable<Result<void>> serve(net::any_io_executor executor, kubernetes::ClusterConfig cluster, CommandLine line,
                                   std::string identity);

}  // namespace osb::controller
