#pragma once

#include <memory>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "cli/live/forwarder.h"

namespace osb::cli {

// Forwards ports of a sandbox as long as it lives, on a thread of its own that takes no signals.
class BackgroundForwarder {
 public:
  // Listens on 127.0.0.1 and says so on standard error. Nothing for no ports.
  static Expected<std::unique_ptr<BackgroundForwarder>> start(CommandIo& context, const opensandbox::Sandbox& sandbox,
                                                              const std::vector<ForwardSpec>& specs);
  ~BackgroundForwarder();
  BackgroundForwarder(const BackgroundForwarder&) = delete;
  BackgroundForwarder& operator=(const BackgroundForwarder&) = delete;

 private:
  explicit BackgroundForwarder(const CommandIo& context) : forwarder_(context, loop_) {}

  net::io_context loop_{1};
  Forwarder forwarder_;
  std::thread thread_;
};

}  // namespace osb::cli
