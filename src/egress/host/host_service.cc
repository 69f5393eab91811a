#include "egress/host/host_service.h"

#include <boost/asio/this_coro.hpp>

#include "async/race.h"
#include "async/task_group.h"
#include "base/clock.h"
#include "base/log.h"
#include "egress/api/policy_api.h"
#include "egress/host/host_link.h"
#include "egress/host/host_reports.h"
#include "egress/intercept/interception.h"
#include "egress/metrics/counted_enforcer.h"
#include "egress/proxy/dns_proxy.h"
#include "egress/proxy/tcp_listener.h"
#include "egress/proxy/udp_listener.h"
#include "egress/report/own_connector.h"
#include "http/serve_connection.h"

namespace osb::egress {
namespace {

constexpr std::size_t kMostApiConnections = 256;  // of all sandboxes; further ones are closed

std::vector<Endpoint> parse_servers(const std::vector<std::string>& texts) {
  std::vector<Endpoint> out;
  for (const std::string& text : texts) {
    const auto endpoint = parse_endpoint(text);
    if (endpoint) out.push_back(*endpoint);
    if (!endpoint) log_error("name server is left out", {{"error", endpoint.error().message}});
  }
  return out;
}

net::awaitable<void> serve_api(UniqueFd connection, std::string id, PolicyApi& api) {
  const http::Handler handler = [&](http::Request& request) { return api.handle(id, request); };
  co_await http::serve_connection(std::move(connection), handler);
}

}  // namespace

net::awaitable<Result<void>> serve_host(HostOptions options, net::awaitable<void> stop) {
  using namespace race;
  const net::any_io_executor executor = co_await net::this_coro::executor;
  auto socket = FrameSocket::open(executor, std::move(options.link));
  if (!socket) co_return with_context("link to sandboxd", socket.error());
  TaskGroup connections(executor);
  Sandboxes sandboxes(executor);
  Upstreams upstreams(executor, {});
  AnswerCache cache;
  Resolver resolver(upstreams, cache, system_clock());
  HostReports reports(executor, sandboxes, upstreams, std::move(options.usage));
  PolicyApi* api_ptr = nullptr;
  std::unique_ptr<Interception> interception;
  HostLink link(
      executor, std::move(*socket), sandboxes,
      {.hello =
           [&](const api::egress::Hello& hello) {
             upstreams.set_servers(parse_servers(hello.resolvers));
             reports.start(hello);
           },
       .interception =
           [&](const api::egress::Interception& keys) {
             if (options.intercept.get() < 0) return;
             if (!keys.proxy.empty()) {
               interception->go_through(make_own_proxy(executor, upstreams, {}, keys.proxy, keys.proxy_authorization));
             }
             if (auto started = interception->start(keys, std::move(options.intercept)); !started)
               log_error("connections are not intercepted", {{"error", started.error().message}});
           },
       .connection =
           [&](const std::string& id, UniqueFd connection) {
             if (connections.size() >= kMostApiConnections) return;
             connections.spawn("policy API", serve_api(std::move(connection), id, *api_ptr));
           }});
  VaultOptions vault = std::move(options.vault);
  if (!vault.intercepted) vault.intercepted = [](const Sandbox& sandbox) { return sandbox.intercept; };
  if (!vault.proxy_up) vault.proxy_up = [&] { return interception->serves(); };
  if (!vault.store) {
    vault.store = [&](std::string id, std::optional<vault::StoredVault> stored) {
      return link.set_vault(std::move(id), std::move(stored));
    };
  }
  CountedEnforcer enforcer(link, sandboxes);
  PolicyApi api(executor, sandboxes, enforcer, {.reason = {}, .vault = std::move(vault)}, &HostReports::changed);
  api_ptr = &api;
  interception =
      std::make_unique<Interception>(executor, sandboxes, resolver, api.audit(), intercept::InterceptorOptions{});
  sandboxes.on_removed([&](const Sandbox& sandbox) { interception->forget(sandbox.address); });
  DnsProxy proxy(resolver, enforcer, system_clock(), reports.hooks());
  sandboxes.on_reopen([&](const SandboxPtr& sandbox, auto addresses) { proxy.reopen(sandbox, std::move(addresses)); });

  std::shared_ptr<UdpListener> udp;
  const auto flush = [&] {
    if (udp) udp->flush();
  };
  auto opened = UdpListener::open(
      executor, std::move(options.udp),
      [&](const SocketAddress& from, std::string_view message, const ReplyPath& reply) {
        // A sender without a policy is no business of ours: sandboxd redirects none.
        if (const SandboxPtr sandbox = sandboxes.by_address(from.ip())) proxy.handle(sandbox, message, reply);
      },
      flush);
  if (!opened) co_return Failure(opened.error());
  udp = std::move(*opened);
  upstreams.on_drained(flush);
  link.on_drained(flush);
  TcpListener tcp(executor, proxy, [&](const IpAddress& from) { return sandboxes.by_address(from); });
  tcp.listen(std::move(options.tcp));

  Result<void> result = link.send_ready();
  if (result) {
    log_info("egress serves this host");
    auto first = co_await (link.run() || std::move(stop));
    if (first.index() == 0) result = std::get<0>(std::move(first));
  }
  udp->close();
  co_await tcp.close();
  co_await interception->close();
  co_await connections.close();
  co_await reports.close();
  co_await upstreams.close();
  co_return result;
}

}  // namespace osb::egress
