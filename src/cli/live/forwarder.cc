#include "cli/live/forwarder.h"

#include <cerrno>
#include <cstdio>
#include <sys/socket.h>

#include "async/race.h"
#include "async/run_loop.h"
#include "async/timer.h"
#include "http/reverse_proxy.h"
#include "http/socket_address.h"
#include "sys/syscall.h"
#include "tls/connector.h"

namespace osb::cli {
namespace {

using namespace race;

constexpr std::chrono::seconds kConnect(10);

// Until this side has ended; then it ends the other one.
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

}  // namespace

std::string forwarding_line(const ForwardedPort& port) {
  return "Forwarding " + port.address + ":" + std::to_string(port.local) + " -> " + std::to_string(port.remote) +
         (port.http_only ? " (HTTP and WebSocket, through the server)" : "") + "\n";
}

// A connection that stop() ends.
struct Forwarder::Open {
  Open(Forwarder& owner, http::Transport& transport) : owner(owner), transport(transport) {
    owner.open_.insert(&transport);
  }
  ~Open() { owner.open_.erase(&transport); }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;
  Forwarder& owner;
  http::Transport& transport;
};

Forwarder::Forwarder(const CommandIo& context, net::io_context& loop)
    : context_(context),
      loop_(loop),
      tasks_(loop.get_executor()),
      connector_(tls::make_connector(loop.get_executor())),
      client_(tls::make_connector(loop.get_executor())) {}

Forwarder::~Forwarder() = default;

Forwarder::Target Forwarder::target_of(const opensandbox::Endpoint& endpoint) {
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

bool Forwarder::ask(net::awaitable<bool> question) {
  bool answer = false;
  run_until_done(loop_, [&]() -> net::awaitable<void> { answer = co_await std::move(question); }());
  return answer;
}

// Whether execd, at `execd`, has tunnels: asked without an upgrade, it says that one is missing.
net::awaitable<bool> Forwarder::has_tunnels(Target execd) {
  http::ClientRequest request;
  request.target = execd.prefix + "/tunnel/1";
  request.headers = execd.headers;
  auto answer = co_await client_.send(execd.origin, std::move(request));
  if (!answer || !answer->body) co_return false;
  const int status = answer->status;
  (void)co_await answer->body->read_all(64 * 1024);
  co_return status == 400 || status == 426;
}

Expected<Forwarder::Way> Forwarder::way_to(const opensandbox::Sandbox& sandbox, std::uint16_t port) {
  auto endpoint = sandbox.endpoint(port);
  if (!endpoint) return sdk_failed(context_, endpoint.error());
  if (!execd_) {
    auto found = sandbox.endpoint(opensandbox::kExecdPort);
    if (!found) return sdk_failed(context_, found.error());
    execd_ = target_of(*found);
    execd_has_tunnels_ = ask(has_tunnels(*execd_));
  }
  Way way;
  way.port = port;
  if (execd_has_tunnels_) {
    way.tunnel = *execd_;
    way.tunnel->prefix += "/tunnel/" + std::to_string(port);
  }
  Target direct = target_of(*endpoint);
  if (direct.prefix.empty() || !way.tunnel) way.direct = std::move(direct);
  return way;
}

Expected<std::vector<ForwardedPort>> Forwarder::listen(const opensandbox::Sandbox& sandbox, const std::string& address,
                                                       const std::vector<ForwardSpec>& specs) {
  std::vector<ForwardedPort> out;
  for (const ForwardSpec& spec : specs) {
    auto found = way_to(sandbox, spec.remote);
    if (!found) return std::unexpected(found.error());
    const Way& way = ways_.emplace_back(std::move(*found));
    const bool http_only = !way.tunnel && !way.direct->prefix.empty();
    const auto local = http::Address::tcp(address, spec.local);
    auto port = http_only ? add_http(local, way) : add_tcp(local, way);
    if (!port) {
      return failed(port.error(), "Is the port in use? ':" + std::to_string(spec.remote) + "' takes any free one.");
    }
    out.push_back({address, *port, spec.remote, http_only});
  }
  return out;
}

Result<std::uint16_t> Forwarder::add_http(const http::Address& address, const Way& way) {
  auto& server = servers_.emplace_back(std::make_unique<http::Server>(
      loop_.get_executor(), [this, &way](http::Request& request) { return forward(*way.direct, request); }));
  auto bound = server->listen(address);
  if (!bound) return Failure(bound.error());
  return bound->port;
}

Result<std::uint16_t> Forwarder::add_tcp(const http::Address& address, const Way& way) {
  auto bound = listen_on(address);
  if (!bound) return Failure(bound.error());
  auto& listener =
      listeners_.emplace_back(std::make_unique<http::Listener>(loop_.get_executor(), std::move(bound->first)));
  tasks_.spawn("listener", accept(*listener, way));
  return bound->second;
}

net::awaitable<void> Forwarder::stop() {
  for (auto& listener : listeners_) listener->close();
  for (http::Transport* transport : open_) transport->close();
  for (auto& server : servers_) co_await server->stop(std::chrono::milliseconds(0));
  co_await tasks_.close();
}

// Not through Output: the loop may run on another thread than the command.
void Forwarder::complain(const std::string& message) { std::fputs(("osb: " + message + "\n").c_str(), stderr); }

net::awaitable<void> Forwarder::accept(http::Listener& listener, const Way& way) {
  for (;;) {
    auto socket = co_await listener.accept();
    if (!socket) {
      if (socket.error().code != Code::Unavailable) co_return;
      complain(socket.error().message);
      if (!co_await sleep_for(std::chrono::milliseconds(100))) co_return;
      continue;
    }
    tasks_.spawn("connection", splice(http::make_plain_transport(loop_.get_executor(), std::move(*socket)), way));
  }
}

net::awaitable<void> Forwarder::splice(std::unique_ptr<http::Transport> local, const Way& way) {
  if (!way.direct) co_return co_await tunnel(std::move(local), way, "");
  auto remote = co_await connector_->connect(way.direct->origin, kConnect);
  // Nothing listens at the sandbox's address: many servers listen on its loopback only.
  if (!remote && way.tunnel) co_return co_await tunnel(std::move(local), way, remote.error().message);
  if (!remote) co_return complain(remote.error().message);
  const Open here(*this, *local), there(*this, **remote);
  co_await (copy(*local, **remote) && copy(**remote, *local));
}

// `refused`: why the direct way failed, "" where there is none.
net::awaitable<void> Forwarder::tunnel(std::unique_ptr<http::Transport> local, const Way& way,
                                       const std::string& refused) {
  const Target& target = *way.tunnel;
  auto remote = co_await connector_->connect(target.origin, kConnect);
  if (!remote) co_return complain(remote.error().message);
  http::Transport& wire = **remote;
  const Open here(*this, *local), there(*this, wire);
  http::WebSocket::Options patient;  // either side may pause for any time
  patient.read_timeout = patient.write_timeout = std::chrono::milliseconds(0);
  const std::string host = target.origin.substr(target.origin.find("://") + 3);
  auto socket = co_await http::websocket_connect(std::move(*remote), host, target.prefix, target.headers, patient);
  const std::string port = "port " + std::to_string(way.port) + " of the sandbox: ";
  if (!socket) co_return complain(port + (refused.empty() ? socket.error().message : "nothing listens there"));
  co_await (to_tunnel(*local, **socket) && from_tunnel(**socket, *local));
  // The server accepts first and then says that it was refused.
  if (const int code = (*socket)->close_code(); code == kRefused || code == kBroken) {
    const std::string why((*socket)->close_reason());
    complain(port + (why.empty() ? "was refused" : why));
  }
}

net::awaitable<http::Response> Forwarder::forward(const Target& target, http::Request& request) {
  http::ProxyTarget to;
  to.origin = target.origin;
  to.target = target.prefix + request.target;
  to.add = target.headers;
  co_return co_await http::forward(client_, request, std::move(to));
}

}  // namespace osb::cli
