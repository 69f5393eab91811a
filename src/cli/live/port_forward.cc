#include <cerrno>
#include <csignal>
#include <deque>
#include <set>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>

#include "async/signals.h"
#include "async/task_group.h"
#include "async/timer.h"
#include "cli/live/forward_spec.h"
#include "cli/more_commands.h"
#include "cli/output/spinner.h"
#include "http/client.h"
#include "http/listener.h"
#include "http/reverse_proxy.h"
#include "http/server.h"
#include "http/socket_address.h"
#include "http/websocket.h"
#include "sys/syscall.h"
#include "tls/connector.h"

namespace osb::cli {
namespace {

using namespace net::experimental::awaitable_operators;

struct ForwardOptions {
  std::string id;
  std::vector<std::string> specs;
  std::string address = "127.0.0.1";
};

// Where a port of the sandbox is reached: its own address takes any protocol. A path below the server takes HTTP only,
// unless it is a tunnel of execd's.
struct Target {
  std::string origin;  // for the connector
  std::string prefix;  // "" or the path in front of every request
  http::Headers headers;
  bool tunnel = false;  // a WebSocket at `prefix` is a TCP connection

  bool takes_tcp() const { return prefix.empty() || tunnel; }
};

Target target_of(const opensandbox::Endpoint& endpoint) {
  Target out;
  const std::size_t scheme = endpoint.url.find("://");
  const std::size_t from = scheme == std::string::npos ? 0 : scheme + 3;
  const std::size_t slash = endpoint.url.find('/', from);
  out.origin = endpoint.url.substr(0, slash);
  if (slash != std::string::npos) out.prefix = endpoint.url.substr(slash);
  while (out.prefix.ends_with('/')) out.prefix.pop_back();
  for (const auto& [name, value] : endpoint.headers) out.headers.set(name, value);
  return out;
}

// Until this side has ended; then the other one is told.
net::awaitable<void> copy(http::Transport& from, http::Transport& to) {
  std::string buffer(64 * 1024, '\0');
  for (;;) {
    auto got = co_await from.read_some({buffer.data(), buffer.size()});
    if (!got) {
      to.close();
      co_return;
    }
    if (*got == 0) break;
    if (auto put = co_await to.write_all(std::string_view(buffer.data(), *got)); !put) {
      from.close();
      co_return;
    }
  }
  to.shutdown_write();
}

// --- a connection through execd's tunnel (specs/execd.yaml)

constexpr int kRefused = 1008, kBroken = 1011;  // close codes
constexpr std::string_view kEnd = R"({"type":"eof"})";

net::awaitable<void> to_tunnel(http::Transport& from, http::WebSocket& to) {
  std::string buffer(64 * 1024, '\0');
  for (;;) {
    auto got = co_await from.read_some({buffer.data(), buffer.size()});
    if (!got) break;
    const bool sent = *got == 0 ? (co_await to.send_text(kEnd)).has_value()
                                : (co_await to.send_binary(std::string_view(buffer.data(), *got))).has_value();
    if (!sent) break;
    if (*got == 0) co_return;
  }
  co_await to.close(1000, "");  // the local side broke off
}

// Until the tunnel is closed, by whichever side.
net::awaitable<void> from_tunnel(http::WebSocket& from, http::Transport& to) {
  for (;;) {
    const auto message = co_await from.read();
    if (!message) break;
    if (message->text) {
      to.shutdown_write();
    } else if (!co_await to.write_all(message->data)) {
      break;
    }
  }
  to.close();
}

class Forwarder {
 public:
  Forwarder(Context& context, net::any_io_executor executor)
      : context_(context),
        executor_(executor),
        tasks_(executor),
        connector_(tls::make_connector(executor)),
        client_(tls::make_connector(executor)) {}

  // Listens; the real local port.
  Result<std::uint16_t> add(const std::string& address, const ForwardSpec& spec, Target target) {
    const Target& kept = targets_.emplace_back(std::move(target));
    if (kept.takes_tcp()) return add_raw(address, spec, kept);
    auto& server = servers_.emplace_back(std::make_unique<http::Server>(
        executor_, [this, &kept](http::Request& request) { return forward(kept, request); }));
    auto bound = server->listen(http::Address::tcp(address, spec.local));
    if (!bound) return Failure(bound.error());
    return bound->port;
  }

  // Whether execd, at `execd`, has tunnels: asked without an upgrade, it says that one is missing.
  net::awaitable<bool> has_tunnels(Target execd) {
    http::ClientRequest request;
    request.target = execd.prefix + "/tunnel/1";
    request.headers = execd.headers;
    auto answer = co_await client_.send(execd.origin, std::move(request));
    if (!answer || !answer->body) co_return false;
    const int status = answer->status;
    (void)co_await answer->body->read_all(64 * 1024);
    co_return status == 400 || status == 426;
  }

  net::awaitable<void> stop() {
    for (auto& listener : listeners_) listener->close();
    for (http::Transport* transport : open_) transport->close();
    for (auto& server : servers_) co_await server->stop(std::chrono::milliseconds(0));
    co_await tasks_.close();
  }

 private:
  Result<std::uint16_t> add_raw(const std::string& address, const ForwardSpec& spec, const Target& target);

  net::awaitable<void> accept(http::Listener& listener, const Target& target) {
    for (;;) {
      auto socket = co_await listener.accept();
      if (!socket) {
        if (socket.error().code != Code::Unavailable) co_return;
        context_.out().error_text("osb: " + socket.error().message + "\n");
        if (!co_await sleep_for(std::chrono::milliseconds(100))) co_return;
        continue;
      }
      tasks_.spawn("connection", splice(http::make_plain_transport(executor_, std::move(*socket)), target));
    }
  }

  net::awaitable<void> splice(std::unique_ptr<http::Transport> local, const Target& target) {
    auto remote = co_await connector_->connect(target.origin, std::chrono::seconds(10));
    if (!remote) {
      context_.out().error_text("osb: " + remote.error().message + "\n");
      co_return;
    }
    if (target.tunnel) co_return co_await tunnel(std::move(local), std::move(*remote), target);
    const Open here(*this, *local), there(*this, **remote);
    co_await (copy(*local, **remote) && copy(**remote, *local));
  }

  net::awaitable<void> tunnel(std::unique_ptr<http::Transport> local, std::unique_ptr<http::Transport> remote,
                              const Target& target) {
    http::Transport& wire = *remote;
    const Open here(*this, *local), there(*this, wire);
    http::WebSocket::Options patient;  // either side may pause for any time
    patient.read_timeout = patient.write_timeout = std::chrono::milliseconds(0);
    const std::string host = target.origin.substr(target.origin.find("://") + 3);
    auto socket = co_await http::websocket_connect(std::move(remote), host, target.prefix, target.headers, patient);
    if (!socket) {
      context_.out().error_text("osb: " + target.prefix + " " + socket.error().message + "\n");
      co_return;
    }
    co_await (to_tunnel(*local, **socket) && from_tunnel(**socket, *local));
    // The server accepts first and then says that it was refused.
    if (const int code = (*socket)->close_code(); code == kRefused || code == kBroken) {
      const std::string why((*socket)->close_reason());
      context_.out().error_text("osb: " + target.prefix + ": " + (why.empty() ? "was refused" : why) + "\n");
    }
  }

  net::awaitable<http::Response> forward(const Target& target, http::Request& request) {
    http::ProxyTarget to;
    to.origin = target.origin;
    to.target = target.prefix + request.target;
    to.add = target.headers;
    co_return co_await http::forward(client_, request, std::move(to));
  }

  // A connection that stop() ends.
  struct Open {
    Open(Forwarder& owner, http::Transport& transport) : owner(owner), transport(transport) {
      owner.open_.insert(&transport);
    }
    ~Open() { owner.open_.erase(&transport); }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
    Forwarder& owner;
    http::Transport& transport;
  };

  Context& context_;
  net::any_io_executor executor_;
  std::set<http::Transport*> open_;
  TaskGroup tasks_;
  std::unique_ptr<http::Connector> connector_;
  http::Client client_;
  std::deque<Target> targets_;
  std::deque<std::unique_ptr<http::Listener>> listeners_;
  std::deque<std::unique_ptr<http::Server>> servers_;
};

// A listening socket, and the port it really has.
Result<std::pair<UniqueFd, std::uint16_t>> listen_on(const http::Address& address) {
  auto name = http::to_sockaddr(address);
  if (!name) return Failure(name.error());
  UniqueFd socket(::socket(name->get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (socket.get() >= 0) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (socket.get() < 0 || ::bind(socket.get(), name->get(), name->length) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0 || ::getsockname(socket.get(), name->get(), &name->length) != 0) {
    return sys::from_errno("listen on " + address.to_string(), errno);
  }
  return std::pair(std::move(socket), http::from_sockaddr(*name).port);
}

Result<std::uint16_t> Forwarder::add_raw(const std::string& address, const ForwardSpec& spec, const Target& target) {
  auto bound = listen_on(http::Address::tcp(address, spec.local));
  if (!bound) return Failure(bound.error());
  auto& listener = listeners_.emplace_back(std::make_unique<http::Listener>(executor_, std::move(bound->first)));
  tasks_.spawn("listener", accept(*listener, target));
  return bound->second;
}

Outcome port_forward(Context& context, const ForwardOptions& options) {
  std::vector<ForwardSpec> specs;
  for (const std::string& text : options.specs) {
    auto spec = parse_forward_spec(text);
    if (!spec) return usage_error(spec.error().message + ".");
    specs.push_back(*spec);
  }
  ignore_sigpipe();
  net::io_context loop(1);
  SignalSet signals(loop.get_executor(), {SIGINT, SIGTERM, SIGHUP});
  auto sandbox = context.sandbox(options.id);
  if (!sandbox) return failed(sandbox.error());
  Forwarder forwarder(context, loop.get_executor());
  std::optional<Problem> problem;
  json::array rows;
  const auto ask = [&](net::awaitable<bool> question) {
    bool answer = false;
    net::co_spawn(loop, std::move(question), [&](std::exception_ptr, bool yes) {
      answer = yes;
      loop.stop();
    });
    loop.run();
    loop.restart();
    return answer;
  };
  std::optional<Target> execd;
  const auto begin = [&]() -> Expected<void> {
    for (const ForwardSpec& spec : specs) {
      auto endpoint = sandbox->endpoint(spec.remote);
      if (!endpoint) return sdk_failed(context, endpoint.error());
      Target target = target_of(*endpoint);
      if (!target.takes_tcp()) {
        if (!execd) {
          auto found = sandbox->endpoint(opensandbox::kExecdPort);
          if (!found) return sdk_failed(context, found.error());
          execd = target_of(*found);
          execd->tunnel = ask(forwarder.has_tunnels(*execd));
        }
        if (execd->tunnel) {
          target = *execd;
          target.prefix += "/tunnel/" + std::to_string(spec.remote);
        }
      }
      const bool http_only = !target.takes_tcp();
      auto port = forwarder.add(options.address, spec, std::move(target));
      if (!port) {
        return failed(port.error(), "Is the port in use? ':" + std::to_string(spec.remote) + "' takes any free one.");
      }
      rows.push_back(json::object{{"address", options.address},
                                  {"local_port", *port},
                                  {"remote_port", spec.remote},
                                  {"protocol", http_only ? "http" : "tcp"}});
    }
    return {};
  };
  if (auto begun = begin(); !begun) problem = begun.error();
  if (!problem) {
    for (const json::value& row : rows) {
      if (context.out().structured()) {
        context.out().json_line(row);
      } else {
        const auto number = [&](const char* name) { return std::to_string(row.at(name).to_number<int>()); };
        context.out().text("Forwarding " + options.address + ":" + number("local_port") + " -> " +
                           number("remote_port") +
                           (row.at("protocol") == "http" ? " (HTTP and WebSocket, through the server)" : "") + "\n");
      }
    }
    context.out().flush();
  }
  int signal = 0;
  std::exception_ptr bug;
  net::co_spawn(
      loop,
      [&]() -> net::awaitable<void> {
        if (!problem) signal = (co_await signals.next()).value_or(SIGINT);
        co_await forwarder.stop();
      },
      [&](std::exception_ptr e) {
        bug = e;
        signals.cancel();
      });
  loop.run();
  if (bug) std::rethrow_exception(bug);
  if (problem) return failed(std::move(*problem));
  return signal == SIGINT ? 0 : 128 + signal;
}

}  // namespace

void add_port_forward_command(Command& root, Context& context) {
  Command& command = root.command("port-forward", "Reach ports of a sandbox from this machine, until Ctrl-C.");
  command.details(
      "Any TCP protocol passes. Where the sandbox's own address is reachable connections go there, else (or with "
      "--use-server-proxy) through the server and a tunnel of execd's, which also reaches what listens on the "
      "sandbox's "
      "loopback; HTTP and WebSocket only where the sandbox has an execd without tunnels.");
  ForwardOptions& options = command.values<ForwardOptions>();
  command.argument("SANDBOX_ID", options.id).completes(Completes::Sandboxes);
  command.argument("PORTS", options.specs, "LOCAL:REMOTE, PORT, or :REMOTE for any free local port; several.");
  command.option("--address", "IP", "Where to listen; 127.0.0.1.", options.address);
  command.formats({Format::Table, Format::Json});
  command.action([&context, &options] { return port_forward(context, options); });
}

}  // namespace osb::cli
