#include "cli/live/background_forwarder.h"

#include <csignal>

#include "async/run_loop.h"

namespace osb::cli {

Expected<std::unique_ptr<BackgroundForwarder>> BackgroundForwarder::start(CommandIo& context,
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

BackgroundForwarder::~BackgroundForwarder() {
  if (!thread_.joinable()) return;
  loop_.stop();
  thread_.join();
  loop_.restart();
  run_until_done(loop_, forwarder_.stop());
}

}  // namespace osb::cli
