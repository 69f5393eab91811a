#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <grp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>

#include "async/blocking_pool.h"
#include "async/run_loop.h"
#include "async/signals.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "http/middleware.h"
#include "http/router.h"
#include "http/server.h"
#include "http/url.h"
#include "kernel/core_scheduling.h"
#include "kernel/limited_cgroup.h"
#include "kernel/namespace.h"
#include "sandboxd/daemon/check.h"
#include "sandboxd/daemon/config.h"
#include "sandboxd/daemon/fault.h"
#include "sandboxd/daemon/routes.h"
#include "sandboxd/egress/egress_process.h"
#include "sandboxd/launch/seccomp_file.h"
#include "sandboxd/network/dns.h"
#include "sandboxd/network/network_lock.h"
#include "sandboxd/sandbox/host_sandboxes.h"
#include "sys/file_lock.h"
#include "sys/notify_ready.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

// Launches and removals sleep in the kernel more than they compute.
constexpr std::size_t kBlockingThreads = 8;

int refuse(const Error& error) {
  std::fprintf(stderr, "sandboxd: %s\n", error.message.c_str());
  return 1;
}

Result<DaemonConfig> configure(const CommandLine& line) {
  auto config = load_config(line.config_path, line.config_given);
  if (!config) return config;
  if (!line.state_directory.empty()) config->sandbox.state_directory = line.state_directory;
  if (!line.run_directory.empty()) {
    config->sandbox.run_directory = line.run_directory;
    config->socket = line.run_directory + "/sandboxd.sock";
  }
  if (!line.socket.empty()) config->socket = line.socket;
  if (!line.execd.empty()) config->sandbox.execd = line.execd;
  std::error_code error;
  const std::filesystem::path beside = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  if (config->sandbox.execd.empty()) config->sandbox.execd = (beside / "execd").string();
  if (config->egress.program.empty()) config->egress.program = (beside / "opensandbox-egress").string();
  if (const group* found = ::getgrnam(config->group.c_str())) {
    config->sandbox.group = found->gr_gid;
  } else if (const auto number = parse_number<gid_t>(config->group)) {
    config->sandbox.group = *number;
  }
  complete_config(*config);
  return config;
}

// A sandbox costs us about four.
void allow_many_descriptors() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const auto most = sys::read_text("/proc/sys/fs/nr_open");
  const rlim_t wanted = most ? std::strtoul(most->c_str(), nullptr, 10) : files.rlim_max;
  files = {std::max(wanted, files.rlim_max), std::max(wanted, files.rlim_max)};
  if (::setrlimit(RLIMIT_NOFILE, &files) == 0) return;
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  log_warn("few descriptors", {{"have", files.rlim_cur}});
}

// One daemon per state directory.
Result<UniqueFd> lock_state(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  auto held = sys::lock_file(directory + "/lock");
  if (held) return held;
  if (held.error().code != Code::Conflict) {
    return fail(Code::Internal, "cannot write to the state directory " + directory + ": " + held.error().message);
  }
  return fail(Code::Conflict, "another sandboxd uses the state directory " + directory);
}

// Only root and members of the group, even if the socket's mode was changed.
Result<void> check_peer(int fd, gid_t group) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) return fail(Code::Forbidden, "unknown peer");
  if (peer.uid == 0 || (group != 0 && peer.gid == group)) return {};
  std::vector<gid_t> groups(65536);
  size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
  if (group != 0 && ::getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) == 0) {
    groups.resize(size / sizeof(gid_t));
    if (std::ranges::find(groups, group) != groups.end()) return {};
  }
  log_warn("peer refused", {{"uid", peer.uid}, {"pid", peer.pid}});
  return fail(Code::Forbidden, "not a member of the socket's group");
}

// The reason why sandboxes of this host cannot have a network; empty if they can.
std::string why_no_bridge(const std::vector<HostCheck>& checks) {
  for (const HostCheck& check : checks) {
    if ((check.what == "veth" || check.what == "nftables") && check.state != HostCheck::State::Ok) {
      return check.what + ": " + check.detail + " (" + check.advice + ")";
    }
  }
  return "";
}

Result<void> derive_limits(DaemonConfig& config) {
  const auto machine = measure_machine(config.sandbox.state_directory);
  const auto ceilings = config::derive_ceilings(config.sandbox.ceilings, machine, "sandbox");
  if (!ceilings) return Failure(ceilings.error());
  config.sandbox.ceilings = *ceilings;
  if (ceilings->max_pids > 0) {
    const auto most = static_cast<std::uint64_t>(ceilings->max_pids);
    config.sandbox.default_pids = std::min(config.sandbox.default_pids, most);
  }
  return {};
}

// Keeps the host alive when all sandboxes take as much as they can. Sandboxes that hold more than a new limit are no
// reason to refuse the start: until they end, their own limits are all there is. A host without a controller has no
// limits of that kind; requests for one are refused.
void limit_all(const kernel::LimitedCgroups& cgroups, Ceilings& ceilings) {
  const auto support = cgroups.support();
  if (!support.memory) ceilings.default_memory_bytes = ceilings.total_memory_bytes = 0;
  if (!support.cpu) ceilings.default_cpu_millis = 0;
  if (!support.pids) ceilings.total_pids = 0;
  if (auto limited = cgroups.limit_all(parent_limits(ceilings)); !limited) {
    log_error("sandboxes have no common limit", {{"error", limited.error().message}});
    return;
  }
  log_info("limits of all sandboxes together", {{"memory_bytes", ceilings.total_memory_bytes},
                                                {"pids", ceilings.total_pids},
                                                {"sandboxes", ceilings.max_sandboxes}});
}

// Everything about walls that can be wrong is found before the first sandbox.
Result<void> load_classes(SandboxConfig& config) {
  for (auto& [name, about] : config.classes) {
    auto program = load_seccomp_profile(about.seccomp_file);
    if (!program) return with_context("[runtimes] " + name, program.error());
    about.seccomp = std::make_shared<const std::vector<sock_filter>>(std::move(*program));
  }
  if (config.core_scheduling && !kernel::has_core_scheduling()) {
    return fail(Code::Unsupported, "[sandbox] core_scheduling: this kernel has none (CONFIG_SCHED_CORE, Linux 5.14)");
  }
  return {};
}

// Why creates with a network policy are refused; empty if they are not.
std::string why_no_policies(const EgressConfig& egress, const std::string& no_bridge) {
  if (!no_bridge.empty()) return "this host cannot enforce one: " + no_bridge;
  const auto usable = check_egress_program(egress.program);
  return usable ? "" : "this host cannot enforce one: " + usable.error().message;
}

// The collector, the webhook and the proxy of the settings: the egress process may reach them wherever they are.
void open_to_process(const EgressConfig& egress, NetworkConfig& out) {
  for (const std::string& resolver : egress.resolvers) {
    const auto colon = resolver.rfind(':');
    const auto address = parse_ipv4(resolver.substr(0, colon));
    const auto port =
        colon == std::string::npos ? std::nullopt : parse_number<std::uint16_t>(resolver.substr(colon + 1));
    if (address && port) out.egress_resolvers.emplace_back(*address, *port);
  }
  for (const std::string& text : {egress.otlp_endpoint, egress.deny_webhook, egress.upstream_proxy}) {
    const auto url = http::Url::parse(text);
    if (!url) continue;
    const auto parsed = parse_ipv4(url->host);
    const auto address = parsed ? std::optional(*parsed) : std::nullopt;
    // Connections of sandboxes go out on these ports, so they cannot be opened for whatever address a name has.
    const bool shared = url->port == 80 || url->port == 443;
    if (address || !shared) {
      out.egress_reports.emplace_back(address, url->port);
    } else {
      log_warn("this name is reached only if its addresses are open to sandboxes: use another port, or an address",
               {{"host", url->host}, {"port", url->port}});
    }
  }
}

int serve(DaemonConfig config, std::string no_bridge) {
  ignore_sigpipe();
  ::umask(022);
  allow_many_descriptors();
  const auto disk = open_writable_disk(config.disk, config.sandbox.state_directory);
  if (!disk) return refuse(disk.error());
  if (auto used = use_disk(config, *disk); !used) return refuse(used.error());
  if (config.sandbox.ceilings.limits_io()) {
    if (auto device = kernel::io_device(config.sandbox.disk()); !device) {
      return refuse(with_context("[sandbox] limits of io", device.error()).error());
    }
  }

  net::io_context io(1);
  const net::any_io_executor executor = io.get_executor();
  SignalSet signals(executor, {SIGTERM, SIGINT});
  BlockingPool pool(kBlockingThreads);

  auto parent = kernel::LimitedCgroups::open(config.cgroup_parent);
  if (!parent) return refuse(parent.error());
  limit_all(*parent, config.sandbox.ceilings);
  KernelCgroups cgroups(std::move(*parent));
  auto egress_sockets = bind_egress_sockets(config.network);
  if (!egress_sockets) return refuse(egress_sockets.error());
  config.network.egress_port = egress_sockets->port;
  config.network.intercept_port = egress_sockets->intercept_port;
  open_to_process(config.egress, config.network);
  config.sandbox.policies_go_through_proxy = !config.egress.upstream_proxy.empty();
  config.sandbox.no_policies = why_no_policies(config.egress, no_bridge);
  auto firewall = Firewall::open(config.network);
  if (!firewall) return refuse(firewall.error());
  auto slots = SlotPool::create(config.network, **firewall);
  if (!slots) return refuse(slots.error());
  auto volumes = VolumeStore::open(config.volumes);
  if (!volumes) return refuse(volumes.error());
  SnapshotStoreOptions snapshot_options;
  snapshot_options.after_step = config.sandbox.after_step;
  snapshot_options.reserve = config.disk.reserve;
  const auto snapshot_limits = resolve_snapshot_limits(config.disk.snapshot_bytes, config.sandbox.state_directory);
  if (!snapshot_limits) return refuse(snapshot_limits.error());
  snapshot_options.max_bytes = snapshot_limits->bytes;
  snapshot_options.max_entries = snapshot_limits->entries;
  auto snapshots = SnapshotStore::open(config.sandbox.state_directory + "/snapshots", std::move(snapshot_options));
  if (!snapshots) return refuse(snapshots.error());
  auto images = ImageService::open(executor, config.images);
  if (!images) return refuse(images.error());
  NetworkPolicies policies(**firewall, config.network);
  EgressAuthority authority(config.sandbox.state_directory + "/egress-ca.pem",
                            {.extra_trust = config.egress.upstream_ca,
                             .scrub_bodies = config.egress.scrub_bodies,
                             .pins = config.egress.pins});
  EgressProcess egress(executor, pool, policies, authority,
                       {.program = config.egress.program,
                        .user = config.network.egress_id(),
                        .resolvers = config.egress.resolvers,
                        .rules_directory = config.egress.rules_directory,
                        .otlp_endpoint = config.egress.otlp_endpoint,
                        .otlp_interval = std::chrono::seconds(config.egress.otlp_interval_seconds),
                        .deny_webhook = config.egress.deny_webhook,
                        .log_names = config.egress.log_names,
                        .upstream_proxy = config.egress.upstream_proxy,
                        .upstream_proxy_authorization = config.egress.upstream_proxy_authorization});
  policies.on_change([&](const std::string& id) { egress.changed(id); });
  if (auto loaded = egress.load_rules(); !loaded) return refuse(loaded.error());
  HostParts parts{**slots, **firewall, cgroups, **volumes, pool};
  parts.policies = &policies;
  parts.authority = [&] { return authority.certificate(); };
  auto builder = SandboxBuilder::open(config.sandbox, std::move(parts));
  if (!builder) return refuse(builder.error());
  HostSandboxes sandboxes(executor, pool, **builder, **images, **snapshots);
  sandboxes.recover();
  if (no_bridge.empty()) {
    // Sandboxes that live already need them before the first create.
    (void)(*firewall)->allow_resolvers(sandbox_dns(config.network.dns).servers);
    auto installed = (*firewall)->install();
    // A foreign network in our subnet is a mistake that the operator has to fix, not a property of the host.
    if (!installed && installed.error().code == Code::Conflict) return refuse(installed.error());
    if (!installed) no_bridge = installed.error().message;
  }
  if (!no_bridge.empty()) log_warn("sandboxes get no network", {{"missing", no_bridge}});
  if (auto started = (*slots)->start(std::move(no_bridge)); !started) return refuse(started.error());
  sandboxes.start();
  if (config.sandbox.no_policies.empty()) {
    sandboxes.on_policy_api([&](const std::string& id) { return egress.connect(id); });
    egress.start(
        std::move(*egress_sockets),
        [&](std::string id, std::uint64_t revision, policy::Policy policy) {
          return sandboxes.set_policy(std::move(id), revision, std::move(policy));
        },
        [&](std::string id, std::optional<boost::json::object> vault) {
          return sandboxes.set_vault(std::move(id), std::move(vault));
        },
        [&](const std::string& id) {
          const auto status = sandboxes.inspect(id);
          return status ? status->egress_token : "";
        });
  } else {
    log_warn("network policies are refused", {{"why", config.sandbox.no_policies}});
  }

  http::Router router({"NATIVE::NOT_FOUND", "NATIVE::METHOD_NOT_ALLOWED", "NATIVE::INVALID_REQUEST"});
  add_sandbox_routes(router, sandboxes);
  add_image_routes(router, **images);
  add_volume_routes(router, pool, **volumes);
  http::ServerOptions options;
  options.limits.body_stall = std::chrono::hours(1);
  // Longer than the server waits for clients that read through it, so that they meet the server's limit.
  options.limits.write_stall = std::chrono::hours(1);
  options.on_complete = http::access_log(LogLevel::Debug);
  options.secure =
      [allowed_group = config.sandbox.group](
          std::unique_ptr<http::Transport> transport) -> net::awaitable<Result<std::unique_ptr<http::Transport>>> {
    if (auto allowed = check_peer(transport->native_fd(), allowed_group); !allowed) co_return Failure(allowed.error());
    co_return transport;
  };
  http::Server server(
      executor,
      http::with_request_id(http::with_fence([&](http::Request& request) { return router.dispatch(request); })),
      std::move(options));
  const auto address = server.listen(http::Address::unix_socket(config.socket));
  if (!address) return refuse(address.error());
  if (::chown(config.socket.c_str(), 0, config.sandbox.group) < 0 || ::chmod(config.socket.c_str(), 0660) < 0) {
    return refuse(Error(Code::Internal, "cannot set owner and mode of " + config.socket));
  }
  log_info("sandboxd is ready", {{"socket", config.socket}, {"sandboxes", sandboxes.list().size()}});

  sys::notify_ready();

  const auto life = [&]() -> net::awaitable<void> {
    (void)co_await signals.next();
    log_info("ending; sandboxes go on");
    sandboxes.end_watching();
    co_await server.stop(std::chrono::seconds(5));
    co_await sandboxes.close();
    co_await egress.close();
    co_await (*images)->close();
  };
  run_until_done(io, life());
  return 0;
}

int start(const std::vector<std::string>& args) {
  const auto line = parse_command_line(args);
  if (!line) {
    std::fprintf(stderr, "sandboxd: %s\n%s", line.error().message.c_str(), usage());
    return 2;
  }
  if (line->action == CommandLine::Action::ShowHelp) return std::fputs(usage(), stdout), 0;
  if (line->action == CommandLine::Action::ShowVersion) return std::puts("sandboxd " OSB_VERSION), 0;
  if (line->action == CommandLine::Action::PrintSettings) return std::fputs(settings_page().c_str(), stdout), 0;
  if (line->action == CommandLine::Action::PrintExample) return std::fputs(settings_example().c_str(), stdout), 0;
  auto config = configure(*line);
  if (!config) return refuse(config.error());
  CheckOptions check;
  check.state_directory = config->sandbox.state_directory;
  check.cgroup_parent = config->cgroup_parent;
  check.network = config->network;
  check.disk = config->disk;
  check.egress_program = config->egress.program;
  if (line->action == CommandLine::Action::Check) return run_check(check, line->json);
  if (auto derived = derive_limits(*config); !derived) return refuse(derived.error());
  if (auto loaded = load_classes(config->sandbox); !loaded) return refuse(loaded.error());
  LogOptions log;
  log.level = config->log_level;
  log.format = config->log_format;
  if (auto configured = configure_log(log); !configured) return refuse(configured.error());
  config->sandbox.after_step = config->volumes.after_step = fault_from_environment();
  const auto checks = check_host(check);
  if (auto enough = require_host(checks); !enough) return refuse(enough.error());
  const auto state = lock_state(config->sandbox.state_directory);
  if (!state) return refuse(state.error());
  if (auto valid = validate(config->network); !valid) return refuse(valid.error());
  const auto network = lock_network(config->network);
  if (!network) return refuse(network.error());
  const std::vector<std::string> keep = {
      config->sandbox.state_directory, config->sandbox.run_directory,  config->socket, config->sandbox.execd,
      config->egress.program,          config->egress.rules_directory, "/usr",         "/etc"};
  std::vector<std::string> all = keep;
  if (!config->disk.directory.empty()) all.push_back(config->disk.directory);
  for (const auto& path : config->volumes.allowed_host_paths) all.push_back(path.string());
  for (const auto& path : config->images.allowed_directories) all.push_back(path.string());
  for (const auto& [name, program] : config->sandbox.runtimes) all.push_back(program.path);
  if (auto entered = kernel::enter_private_mount_namespace(all); !entered) return refuse(entered.error());
  return serve(std::move(*config), why_no_bridge(checks));
}

}  // namespace
}  // namespace osb::sandboxd

int main(int argc, char** argv) {
  try {
    return osb::sandboxd::start(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  } catch (const std::exception& bug) {
    std::fprintf(stderr, "sandboxd: %s\n", bug.what());
    return 1;
  }
}
