#include "egress/sidecar/sidecar_service.h"

#include <filesystem>
#include <linux/netlink.h>
#include <string.h>
#include <sys/fsuid.h>

#include <boost/asio/this_coro.hpp>
#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "async/blocking_pool.h"
#include "async/race.h"
#include "async/task_group.h"
#include "egress/api/policy_api.h"
#include "egress/intercept/interception.h"
#include "egress/metrics/counted_enforcer.h"
#include "egress/metrics/egress_metrics.h"
#include "egress/proxy/dns_proxy.h"
#include "egress/proxy/tcp_listener.h"
#include "egress/proxy/udp_listener.h"
#include "egress/report/deny_webhook.h"
#include "egress/report/log_lines.h"
#include "egress/report/own_connector.h"
#include "egress/sidecar/nft_enforcer.h"
#include "egress/sidecar/overlay_files.h"
#include "egress/sidecar/sidecar_sockets.h"
#include "http/middleware.h"
#include "http/server.h"
#include "otlp/sender.h"
#include "sys/notify_ready.h"
#include "sys/text_file.h"
#include "tls/system_authorities.h"

namespace osb::egress {
namespace {

constexpr std::chrono::seconds kStopGrace{5};
const Endpoint kLastResort{IpAddress::v4(0x08080808), 53};

// Numbers that the sandbox cannot guess: a process in it may set a mark (CAP_NET_RAW) or change its user.
SocketIdentity new_identity() {
  Random random;
  const auto number = [&](std::uint32_t below) { return (std::uint32_t{random.u16()} << 16 | random.u16()) % below; };
  SocketIdentity out{.mark = number(0xfffffffe) + 1, .owner = 0};
  // A user namespace may not have all users.
  for (const std::uint32_t highest : {0x7ffffffeU, 65'000U}) {
    const std::uint32_t wanted = 1000 + number(highest - 1000);
    ::setfsuid(wanted);
    const bool works = static_cast<std::uint32_t>(::setfsuid(0)) == wanted;
    if (works) {
      out.owner = wanted;
      break;
    }
  }
  return out;
}

// The file if there is a good one, then the environment, then nothing is allowed.
Result<policy::Policy> first_policy(const Settings& settings, const PolicyFile& file) {
  auto stored = file.load();
  if (stored && *stored) return std::move(**stored);
  if (!stored) log_warn("policy file is left out", {{"error", stored.error().message}});
  auto given = policy::parse_policy(settings.rules);
  if (!given) return with_context("OPENSANDBOX_EGRESS_RULES", given.error());
  return given;
}

std::vector<Endpoint> find_upstreams(const Settings& settings, const std::string& resolv_conf) {
  if (!settings.upstreams.empty()) return settings.upstreams;
  auto found = parse_resolv_conf(sys::read_text(resolv_conf).value_or(""));
  if (found.empty()) found.push_back(kLastResort);
  return found;
}

// Everything about the vault but values, next to the policy: a restart knows what must fail closed.
class VaultFile {
 public:
  explicit VaultFile(const std::string& policy_file) {
    if (!policy_file.empty()) path_ = std::filesystem::path(policy_file).parent_path() / "vault.json";
  }

  Result<void> load(Sandbox& sandbox) const {
    const auto text = path_.empty() ? Result<std::string>("") : sys::read_text(path_);
    if (!text && text.error().code != Code::NotFound) return Failure(text.error());
    if (!text || text->empty()) return {};
    const auto value = api::parse_json(*text);
    if (!value) return with_context(path_, value.error());
    return value->is_null() ? Result<void>() : Sandboxes::restore_vault(sandbox, *value);
  }

  net::awaitable<Result<void>> save(BlockingPool& pool, std::optional<vault::StoredVault> stored) const {
    if (path_.empty()) co_return Result<void>();
    const std::string text = stored ? boost::json::serialize(*stored) : "null";
    co_return co_await pool.run([&] { return keep_text(path_, text); });
  }

 private:
  std::string path_;
};

// Every connection comes from the one sandbox, whatever its address. Our own must not be led back to us.
intercept::InterceptorOptions interceptor_options(const SocketIdentity& identity) {
  intercept::InterceptorOptions out;
  out.dial = make_own_dial(identity);
  out.flow_of = [](int socket) -> Result<intercept::Flow> {
    auto flow = intercept::flow_of(socket);
    if (flow) flow->sandbox = {};
    return flow;
  };
  return out;
}

Result<api::egress::Interception> read_keys(const Settings& settings) {
  auto authority = sys::read_text(settings.authority_file);
  if (!authority) return with_context("OPENSANDBOX_EGRESS_CA_FILE", authority.error());
  api::egress::Interception out{.authority = std::move(*authority),
                                .trust = tls::system_authorities(),
                                .scrub_bodies = settings.vault_scrub_bodies,
                                .pins = settings.vault_pins};
  if (settings.extra_trust_file.empty()) return out;
  const auto extra = sys::read_text(settings.extra_trust_file);
  if (!extra) return with_context("OPENSANDBOX_EGRESS_MITMPROXY_UPSTREAM_EXTRA_CA", extra.error());
  out.trust += "\n" + *extra;
  return out;
}

// The collector of metrics stays allowed whatever the user's policy says; deny.always wins over it.
Result<void> load_overlays(const OverlayFiles& files, const Settings& settings, Sandboxes& sandboxes) {
  auto texts = files.read();
  if (!texts) return Failure(texts.error());
  if (policy::parse_overlay(settings.collector, policy::Action::Allow))
    texts->allow += "\n" + settings.collector + "\n";
  return sandboxes.set_overlays(texts->deny, texts->allow);
}

// Read once. A file that is wrong leaves nothing out.
std::unique_ptr<policy::Matcher> names_without_log(const std::string& directory) {
  policy::Policy names;
  if (const auto text = sys::read_text(directory + "/log_skip.always")) {
    auto rules = policy::parse_overlay(*text, policy::Action::Allow);
    if (rules) names.egress = std::move(*rules);
    if (!rules) log_warn("log_skip.always is wrong", {{"error", rules.error().message}});
  }
  return std::make_unique<policy::Matcher>(names);
}

net::awaitable<void> watch_overlays(OverlayFiles& files, const Settings& settings, Sandboxes& sandboxes,
                                    NftEnforcer& enforcer) {
  while (co_await files.changed()) {
    auto loaded = load_overlays(files, settings, sandboxes);
    if (loaded) loaded = enforcer.apply_overlays();
    if (loaded) log_info("overlays loaded", {{"opensandbox.event", "egress.loaded"}});
    if (!loaded) log_error("overlays are wrong; the old rules stay", {{"error", loaded.error().message}});
  }
}

// Ports of the webhook, of the collector and of the proxy.
std::vector<std::uint16_t> own_ports(const Settings& settings) {
  std::vector<std::uint16_t> out;
  if (settings.deny_webhook) out.push_back(settings.deny_webhook->port);
  if (settings.metrics) out.push_back(settings.metrics->url.port);
  if (settings.upstream_proxy) out.push_back(settings.upstream_proxy->port);
  return out;
}

EgressMetrics make_metrics(const Settings& settings, const Sandboxes& sandboxes) {
  return {sandboxes, ProcessUsage(), settings.metrics ? settings.metrics->resource : otlp::Attributes(),
          settings.attributes};
}

}  // namespace

net::awaitable<Result<void>> serve_sidecar(Settings settings, SidecarPaths paths, net::awaitable<void> stop) {
  using namespace race;
  const net::any_io_executor executor = co_await net::this_coro::executor;
  for (const std::string& warning : settings.warnings) log_warn("setting", {{"warning", warning}});
  auto netfilter = kernel::NetlinkSocket::open(NETLINK_NETFILTER);
  if (!netfilter) co_return Failure(netfilter.error());

  // One sandbox; its own address does not matter, since everything comes from this network namespace.
  const std::string id = settings.sandbox_id.empty() ? "sandbox" : settings.sandbox_id;
  const PolicyFile file(settings.policy_file);
  auto policy = first_policy(settings, file);
  if (!policy) co_return Failure(policy.error());
  auto overlays = OverlayFiles::open(executor, paths.rules);
  if (!overlays) co_return Failure(overlays.error());
  Sandboxes sandboxes(executor);
  if (auto loaded = load_overlays(*overlays, settings, sandboxes); !loaded) co_return Failure(loaded.error());
  sandboxes.set(id, {}, 1, std::move(*policy), settings.token, settings.audit);
  log_info("policy loaded", {{"opensandbox.event", "egress.loaded"},
                             {"rules", sandboxes.by_id(id)->policy.egress.size()},
                             {"egress.default", policy::to_string(sandboxes.by_id(id)->policy.default_action)}});

  const auto skipped = names_without_log(paths.rules);
  const auto servers = find_upstreams(settings, paths.resolv_conf);
  const SocketIdentity identity = new_identity();
  if (identity.owner == 0) log_warn("own packets are told apart by their mark only");
  BlockingPool pool(1);
  NftEnforcer enforcer(std::move(*netfilter), sandboxes, file, pool,
                       PacketTable{.upstreams = servers,
                                   .own = identity,
                                   .own_ports = own_ports(settings),
                                   .api_port = settings.api.port,
                                   .intercept = settings.intercept,
                                   .block_doh = settings.block_doh,
                                   .doh_blocklist = settings.doh_blocklist},
                       id, settings.mode);
  // Before anything is served: whatever runs here already is under the policy now.
  if (auto installed = enforcer.install(); !installed) co_return with_context("nftables", installed.error());
  CountedEnforcer counted(enforcer, sandboxes);
  counted.count(id, {});

  Upstreams upstreams(executor, {.timeout = settings.upstream_timeout,
                                 .identity = identity,
                                 .probe_interval = settings.probe_interval,
                                 .probe_name = settings.probe_name});
  AnswerCache cache(4 << 20);
  Resolver resolver(upstreams, cache, system_clock());
  std::optional<DenyWebhook> webhook;
  EgressMetrics metrics = make_metrics(settings, sandboxes);
  const bool timed = settings.metrics.has_value();
  std::optional<otlp::Sender> sender;
  TaskGroup background(executor);
  if (settings.deny_webhook) {
    webhook.emplace(executor, make_own_connector(executor, upstreams, identity), *settings.deny_webhook,
                    DenyWebhook::Options{});
    background.spawn("webhook", webhook->run());
  }
  if (settings.metrics) {
    sender.emplace(*settings.metrics, make_own_connector(executor, upstreams, identity));
    background.spawn("metrics", sender->run([&] { return metrics.document(); }));
  }
  const Logger log;
  DnsProxy proxy(
      resolver, counted, system_clock(),
      {.timed = &timed,
       .denied =
           [&](const Sandbox&, std::string_view name) {
             if (webhook) webhook->denied(settings.sandbox_id, name);
           },
       .failed = [&](const Sandbox&, std::string_view name, std::string_view why) { log_unanswered(log, name, why); },
       .answered =
           [&](const Sandbox&, std::string_view name, const Answer& answer) {
             if (!skipped->name(name).allowed()) log_outbound(log, name, answer);
           }});
  sandboxes.on_reopen([&](const SandboxPtr& sandbox, auto addresses) { proxy.reopen(sandbox, std::move(addresses)); });
  // Before the port of names, which lets the sandbox start: its first connections wait in this socket.
  UniqueFd intercepted;
  if (settings.intercept) {
    auto listener = listen_for_interception();
    if (!listener) co_return Failure(listener.error());
    intercepted = std::move(*listener);
  }
  auto udp_socket = bind_dns(SOCK_DGRAM);
  if (!udp_socket) co_return Failure(udp_socket.error());
  auto tcp_socket = bind_dns(SOCK_STREAM);
  if (!tcp_socket) co_return Failure(tcp_socket.error());
  std::shared_ptr<UdpListener> udp;
  const auto flush = [&] {
    if (udp) udp->flush();
  };
  auto opened = UdpListener::open(
      executor, std::move(*udp_socket),
      [&](const SocketAddress&, std::string_view message, const ReplyPath& reply) {
        proxy.handle(sandboxes.by_id(id), message, reply);
      },
      flush);
  if (!opened) co_return Failure(opened.error());
  udp = std::move(*opened);
  upstreams.on_drained(flush);
  TcpListener tcp(executor, proxy, [&](const IpAddress&) { return sandboxes.by_id(id); });
  tcp.listen(std::move(*tcp_socket));
  upstreams.set_servers(servers);

  std::unique_ptr<Interception> interception;
  const VaultFile vault_file(settings.policy_file);
  VaultOptions vault{
      .intercepted = [&](const Sandbox&) { return settings.intercept; },
      .proxy_up = [&] { return interception->serves(); },
      .require_tls = settings.vault_requires_tls,
      .trusted_proxies = settings.vault_proxies,
      .rules = {.scoped_match = settings.vault_scoped_match},
      .store = [&](std::string,
                   std::optional<vault::StoredVault> stored) { return vault_file.save(pool, std::move(stored)); }};
  PolicyApi api(
      executor, sandboxes, counted,
      {.max_rules = settings.max_rules,
       .reason = settings.audit ? "audit mode: denied names pass and are recorded" : "",
       .vault = std::move(vault)},
      [&](const std::string&, const policy::Change& change, const Error* failed) { log_change(log, change, failed); });
  interception =
      std::make_unique<Interception>(executor, sandboxes, resolver, api.audit(), interceptor_options(identity));
  if (settings.upstream_proxy) {
    const http::Url& proxy = *settings.upstream_proxy;
    interception->go_through(make_own_proxy(executor, upstreams, identity,
                                            proxy.scheme + "://" + proxy.host + ":" + std::to_string(proxy.port),
                                            settings.upstream_proxy_authorization));
  }
  if (settings.intercept) {
    if (auto restored = vault_file.load(*sandboxes.by_id(id)); !restored) co_return restored;
    auto keys = read_keys(settings);
    if (!keys) co_return Failure(keys.error());
    auto started = interception->start(*keys, std::move(intercepted));
    ::explicit_bzero(keys->authority.data(), keys->authority.size());
    if (!started) co_return started;
  }
  http::ServerOptions options;
  options.limits.connections = 256;
  http::Server server(executor, http::with_fence([&](http::Request& request) { return api.handle(id, request); }),
                      std::move(options));
  auto api_socket = listen_for_api(settings.api, identity);
  if (!api_socket) co_return Failure(api_socket.error());
  if (auto listening = server.listen(std::move(*api_socket)); !listening) co_return Failure(listening.error());
  log_info("egress serves", {{"api", settings.api.port}, {"mode", settings.mode}});
  open_gate();
  sys::notify_ready();

  (void)co_await (watch_overlays(*overlays, settings, sandboxes, enforcer) || std::move(stop));
  const auto closed = enforcer.close_all();
  udp->close();
  co_await server.stop(kStopGrace);
  co_await interception->close();
  co_await tcp.close();
  co_await background.close();
  co_await upstreams.close();
  co_return closed;
}

}  // namespace osb::egress
