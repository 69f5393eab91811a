#include "cli/live/background_forwarder.h"

#include <csignal>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

namespace osb::cli {

Expected<std::unique_ptr<BackgroundForwarder>> BackgroundForwarder::start(Context& context,
                                                                          const opensandbox::Sandbox& sandbox,
                                                                          const std::vector<ForwardSpec>& specs) {
  if (specs.empty()) return nullptr;
  std::unique_ptr<BackgroundForwarder> out(new BackgroundForwarder(context));
  const auto ports = out->forwarder_.listen(sandbox, "127.0.0.1", specs);
  if (ports) {
    for (const ForwardedPort& port : *ports) context.out().error_text(forwarding_line(port));
  }
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  out->thread_ = std::thread([raw = out.get()] { raw->loop_.run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!ports) return std::unexpected(ports.error());
  return out;
}

// The loop ends when the last task has. Without any task it has ended before stop() was posted.
BackgroundForwarder::~BackgroundForwarder() {
  if (!thread_.joinable()) return;
  net::co_spawn(loop_, forwarder_.stop(), net::detached);
  thread_.join();
  loop_.restart();
  loop_.run();
}

}  // namespace osb::cli
