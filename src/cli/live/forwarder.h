#pragma once

#include <deque>
#include <memory>
#include <opensandbox/sandbox.h>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "async/task_group.h"
#include "cli/command_io.h"
#include "cli/live/forward_spec.h"
#include "http/client.h"
#include "http/headers.h"
#include "http/listener.h"
#include "http/server.h"
#include "http/websocket.h"

namespace osb::cli {

// A port of this machine that leads to one of a sandbox.
struct ForwardedPort {
  std::string address;
  std::uint16_t local = 0;
  std::uint16_t remote = 0;
  bool http_only = false;  // HTTP and WebSocket only, through the server
};

// "Forwarding 127.0.0.1:8080 -> 80", with a line end.
std::string forwarding_line(const ForwardedPort& port);

// Leads local ports to ports of a sandbox. A connection goes to the sandbox's own address where the server names one;
// if nothing listens there, it goes through a tunnel of execd's, which reaches servers on the sandbox's loopback. Where
// the server only names a path below itself, connections take the tunnel at once.
class Forwarder {
 public:
  Forwarder(const CommandIo& context, net::io_context& loop);
  ~Forwarder();
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  // Listens at `address` for each of `specs`. Waits for the server's answers and runs the loop meanwhile, so nothing
  // else may run it.
  Expected<std::vector<ForwardedPort>> listen(const opensandbox::Sandbox& sandbox, const std::string& address,
                                              const std::vector<ForwardSpec>& specs);
  // Ends all connections.
  net::awaitable<void> stop();

 private:
  // Where connections go.
  struct Target {
    std::string origin;  // for the connector
    std::string prefix;  // "" or the path in front of every request
    http::Headers headers;
  };
  struct Way {
    std::optional<Target> direct;  // takes any protocol if its prefix is empty, else HTTP only
    std::optional<Target> tunnel;  // a WebSocket there is a TCP connection
    std::uint16_t port = 0;        // of the sandbox
  };
  struct Open;

  static Target target_of(const opensandbox::Endpoint& endpoint);
  Expected<Way> way_to(const opensandbox::Sandbox& sandbox, std::uint16_t port);
  net::awaitable<bool> has_tunnels(Target execd);
  bool ask(net::awaitable<bool> question);
  Result<std::uint16_t> add_tcp(const http::Address& address, const Way& way);
  Result<std::uint16_t> add_http(const http::Address& address, const Way& way);
  net::awaitable<void> accept(http::Listener& listener, const Way& way);
  net::awaitable<void> splice(std::unique_ptr<http::Transport> local, const Way& way);
  net::awaitable<void> tunnel(std::unique_ptr<http::Transport> local, const Way& way, const std::string& refused);
  net::awaitable<http::Response> forward(const Target& target, http::Request& request);
  static void complain(const std::string& message);

  const CommandIo& context_;
  net::io_context& loop_;
  std::set<http::Transport*> open_;
  TaskGroup tasks_;
  std::unique_ptr<http::Connector> connector_;
  http::Client client_;
  std::optional<Target> execd_;  // asked for once
  bool execd_has_tunnels_ = false;
  std::deque<Way> ways_;
  std::deque<std::unique_ptr<http::Listener>> listeners_;
  std::deque<std::unique_ptr<http::Server>> servers_;
};

}  // namespace osb::cli
