#include <csignal>

#include <boost/asio/io_context.hpp>

#include "async/run_loop.h"
#include "async/signals.h"
#include "cli/live/forwarder.h"
#include "cli/more_commands.h"

namespace osb::cli {
namespace {

struct ForwardOptions {
  std::string id;
  std::vector<std::string> specs;
  std::string address = "127.0.0.1";
};

void show(Output& out, const std::vector<ForwardedPort>& ports) {
  for (const ForwardedPort& port : ports) {
    if (out.structured()) {
      out.json_line(json::object{{"address", port.address},
                                 {"local_port", port.local},
                                 {"remote_port", port.remote},
                                 {"protocol", port.http_only ? "http" : "tcp"}});
    } else {
      out.text(forwarding_line(port));
    }
  }
  out.flush();
}

Outcome port_forward(CommandIo& context, ForwardOptions& options) {
  auto specs = parse_forward_specs(options.specs);
  if (!specs) return usage_error(specs.error().message + ".");
  ignore_sigpipe();
  net::io_context loop(1);
  SignalSet signals(loop.get_executor(), {SIGINT, SIGTERM, SIGHUP});
  auto sandbox = context.sandbox(options.id);
  if (!sandbox) return failed(sandbox.error());
  Forwarder forwarder(context, loop);
  const auto ports = forwarder.listen(*sandbox, options.address, *specs);
  if (ports) show(context.out(), *ports);
  int signal = 0;
  const auto forward = [&]() -> net::awaitable<void> {
    if (ports) signal = (co_await signals.next()).value_or(SIGINT);
    co_await forwarder.stop();
  };
  run_until_done(loop, forward());
  if (!ports) return failed(ports.error());
  return signal == SIGINT ? 0 : 128 + signal;
}

}  // namespace

void add_port_forward_command(Command& root, CommandIo& context) {
  Command& command = root.command("port-forward", "Reach ports of a sandbox from this machine, until Ctrl-C.");
  command.details(
      "Any TCP protocol passes, also to servers that listen on the sandbox's loopback only. A connection goes to the "
      "sandbox's own address; if nothing listens there, or with --use-server-proxy, it goes through execd. HTTP and "
      "WebSocket only where the sandbox has an execd without tunnels and no address of its own.");
  ForwardOptions& options = command.values<ForwardOptions>();
  command.argument("SANDBOX_ID", options.id).completes(Completes::Sandboxes);
  command.argument("PORTS", options.specs, "LOCAL:REMOTE, PORT, or :REMOTE for any free local port; several.");
  command.option("--address", "IP", "Where to listen; 127.0.0.1.", options.address);
  command.formats({Format::Table, Format::Json});
  command.action([&context, &options] { return port_forward(context, options); });
}

}  // namespace osb::cli
