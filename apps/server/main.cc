#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "async/run_loop.h"
#include "async/signals.h"
#include "async/task_group.h"
#include "base/log.h"
#include "base/text.h"
#include "config/init_config.h"
#include "config/key_guard.h"
#include "config/reload.h"
#include "config/server_config.h"
#include "http/middleware.h"
#include "http/router.h"
#include "http/server.h"
#include "http/web_rules.h"
#include "open_backend.h"
#include "server/access/authenticator.h"
#include "server/access/web_guard.h"
#include "server/audit/access_log.h"
#include "server/audit/audit_log.h"
#include "server/credentials/credential_supply.h"
#include "server/http/proxied_request.h"
#include "server/http/routes.h"
#include "server/metrics/metrics.h"
#include "server/policies/policy_reloads.h"
#include "server/renew/renew_intents.h"
#include "server/service/sandbox_service.h"
#include "server/store/sqlite_store.h"
#include "sys/notify_ready.h"
#include "tls/connector.h"

namespace osb::server {
namespace {

constexpr char kUsage[] =
    "usage: opensandbox-server [--config PATH] [--reload]\n"
    "       opensandbox-server init-config [PATH] [--example NAME] [--force]\n"
    "\n"
    "  --config PATH   configuration (default: $SANDBOX_CONFIG_PATH, then ~/.sandbox.toml)\n"
    "  --reload        accepted and ignored\n"
    "  --version       print the version\n"
    "\n"
    "SIGHUP reads the configuration again; the log names keys that need a restart.\n"
    "init-config writes a configuration to PATH (default ~/.sandbox.toml); --example takes\n"
    "native, docker, docker-zh, k8s or k8s-zh.\n";

int refuse(const Error& error, int status = 1) {
  std::fprintf(stderr, "opensandbox-server: %s\n", error.message.c_str());
  return status;
}

int wrong_usage(const std::string& what) {
  std::fprintf(stderr, "opensandbox-server: %s\n%s", what.c_str(), kUsage);
  return 2;
}

struct CommandLine {
  std::string config;
  bool help = false, version = false, settings = false, init = false, force = false;
  std::string path, example, print;
};

Result<CommandLine> parse(const std::vector<std::string>& args) {
  CommandLine out;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    const auto value = [&](std::string_view name, std::string& into) {
      if (arg.starts_with(std::string(name) + "=")) return into = arg.substr(name.size() + 1), true;
      if (arg == name && i + 1 < args.size()) return into = args[++i], true;
      return false;
    };
    if (arg == "-h" || arg == "--help") {
      out.help = true;
    } else if (arg == "--version") {
      out.version = true;
    } else if (arg == "--print-settings") {  // for scripts/settings
      out.settings = true;
    } else if (value("--print-example", out.print) ||  // for scripts/settings
               (!out.init && (arg == "--reload" || value("--config", out.config)))) {
      continue;
    } else if (!out.init && arg == "init-config") {
      out.init = true;
    } else if (!out.init && arg == "migrate-snapshots") {
      return fail(Code::Unsupported, "migrate-snapshots: this server has no PostgreSQL store to migrate to");
    } else if (out.init && arg == "--force") {
      out.force = true;
    } else if (out.init && value("--example", out.example)) {
      continue;
    } else if (out.init && !arg.starts_with('-') && out.path.empty()) {
      out.path = arg;
    } else {
      return fail(Code::InvalidRequest, "cannot make sense of '" + arg + "'");
    }
  }
  return out;
}

int init_config(const CommandLine& line, const config::Environment& environment) {
  const auto path = config::expand_home(line.path.empty() ? "~/.sandbox.toml" : line.path, environment);
  if (auto written = config::write_example_config(path, line.example, line.force); !written) {
    if (written.error().code == Code::NotFound) return wrong_usage(written.error().message);
    std::printf("%s\n", written.error().message.c_str());
    return 1;
  }
  std::printf("wrote %s\n", path.c_str());
  return 0;
}

Result<void> start_log(const config::LogSection& section) {
  LogOptions options;
  auto level = parse_log_level(section.level);
  if (!level) return Failure(level.error());
  options.level = *level;
  options.format = section.format == "json" ? LogFormat::Json : LogFormat::Text;
  options.outputs = {section.file_enabled ? section.file_path.string() : "stdout"};
  if (section.file_enabled) {
    std::error_code ignored;  // opening the file says it better
    std::filesystem::create_directories(section.file_path.parent_path(), ignored);
    options.rotate_bytes = static_cast<std::uint64_t>(section.file_max_bytes);
    options.keep_files = section.file_backup_count + 1;
  }
  return configure_log(options);
}

ServiceOptions service_options(const config::ServerConfig& config) {
  ServiceOptions out;
  out.max_timeout = config.server.max_sandbox_timeout;
  out.allowed_host_paths = config.storage.allowed_host_paths;
  out.max_sandboxes = config.admission.max_sandboxes;
  out.max_concurrent_creates = config.admission.max_concurrent_creates;
  out.max_queued_creates = config.admission.max_queued_creates;
  out.keep_ended = config.pending_failure_ttl;
  out.renew_on_access = config.renew_intent.enabled;
  out.min_renew_interval = config.renew_intent.min_interval;
  out.template_build_limit = config.templates.build_timeout;
  out.publish.directories = config.templates.publish_directories;
  out.publish.registries = config.templates.publish_registries;
  out.publish.registry_auth = config.templates.registry_auth_file;
  out.publish.scratch = std::filesystem::path(config.store.path).parent_path() / "publishing";
  return out;
}

http::ServerOptions server_options(const config::ServerConfig& config) {
  http::ServerOptions out;
  out.backlog = config.server.backlog;
  out.limits.idle = config.server.timeout_keep_alive;
  const int most = config.server.limit_concurrency;  // 0 is no limit
  out.limits.half_sent_per_client = static_cast<std::size_t>(config.server.limit_half_sent_per_address);
  out.limits.connections = most > 0 ? static_cast<std::size_t>(most) : std::numeric_limits<std::size_t>::max() / 2;
  out.on_exception = [](const http::Request& request, const std::exception& bug) {
    log_error("handler failed", {{"route", request.route}, {"error", bug.what()}});
  };
  return out;
}

MetricsGauges gauges(const SandboxService& service, const Scope& scope) {
  MetricsGauges out;
  for (const SandboxPtr& record : service.store().all()) {
    if (scope.covers(record->owner.tenant)) ++out.sandboxes[record->status.state];
  }
  out.creates_waiting = service.admission().waiting();
  out.creates_running = service.admission().running();
  out.backend_reachable = service.backend_reachable();
  return out;
}

PolicyLibrary::Options policy_options(const config::PoliciesSection& section) {
  return {section.directory, section.default_template};
}

// The operator's entries. Their values pass through this process: no core file may have them, and no other process of
// this user may read them.
Result<credentials::Catalogue> open_catalogue(const config::CredentialsSection& section) {
  auto catalogue = credentials::Catalogue::make(section);
  if (catalogue && !catalogue->empty()) ::prctl(PR_SET_DUMPABLE, 0);
  return catalogue;
}

Result<AuditLog> open_audit_log(const config::LogSection& log) {
  return AuditLog::open(log.audit_file_path, static_cast<std::uint64_t>(log.file_max_bytes), log.file_backup_count + 1);
}

Result<AccessLog> open_access_log(const config::LogSection& log) {
  return AccessLog::open(log.file_enabled ? log.access_file_path.string() : "",
                         static_cast<std::uint64_t>(log.file_max_bytes), log.file_backup_count + 1);
}

EndpointOptions endpoint_options(const config::ServerConfig& config) {
  const config::ServerSection& section = config.server;
  EndpointOptions out;
  out.eip = section.eip;
  out.sandbox_domain = section.sandbox_domain;
  out.direct = http::is_loopback_host(section.host) && section.eip.empty();
  out.headerless_clients = section.headerless_clients;
  out.answer_timeout = config.proxy.answer_timeout.value_or(std::chrono::seconds(0));
  if (config.ingress.gateway) out.gateway = config.ingress;
  return out;
}

http::WebRules web_rules(const config::ServerSection& section) {
  http::WebRules out;
  out.hosts = section.allowed_hosts;
  out.origins = section.allowed_origins;
  // The operator has named these too. "0.0.0.0" is no name of a server.
  if (section.host != "0.0.0.0" && section.host != "::") out.hosts.push_back(section.host);
  std::string_view eip = section.eip;
  if (const std::size_t scheme = eip.find("://"); scheme != std::string_view::npos) eip.remove_prefix(scheme + 3);
  if (const auto host = http::split_host(eip.substr(0, eip.find('/')))) out.hosts.emplace_back(host->name);
  return out;
}

// Null: not asked for.
Result<std::unique_ptr<RenewIntents>> make_renew_intents(const net::any_io_executor& executor,
                                                         const config::RenewIntentSection& section,
                                                         SandboxService& service) {
  if (!section.enabled || !section.redis.enabled) return nullptr;
  auto redis = redis::parse_address(section.redis.dsn);
  if (!redis) return with_context("[renew_intent.redis] dsn", redis.error());
  return std::make_unique<RenewIntents>(
      executor, std::shared_ptr<http::Connector>(tls::make_connector(executor)),
      RenewIntents::Options{std::move(*redis), section.redis.queue_key, section.redis.consumer_concurrency},
      [&service](const std::string& id) {
        service.access_renewals().touch_by_gateway(id);
        service.idle_policies().touch(id);
      });
}

// The parts that a running server can change without a restart; all are used on the loop.
struct LiveParts {
  Authenticator& authenticator;
  SandboxService& service;
  http::Server& server;
  EndpointOptions& endpoints;
  WebGuard& guard;
  AuditLog& audit;
  AccessLog& access;
  PolicyLibrary& policies;
  PolicyReloads& policy_reloads;
  CredentialSupply& supply;
};

// Nothing changes unless everything can. `running` becomes what is in force: keys that need a restart keep their
// values, so that they are named again the next time.
Result<void> reload(config::ServerConfig& running, const std::string& path, const config::Environment& environment,
                    LiveParts parts) {
  auto wanted = config::load_server_config(path, environment);
  if (!wanted) return Failure(wanted.error());
  // No question on a terminal in the middle of serving.
  if (auto guard = config::check_api_key(*wanted, environment, -1); !guard) return Failure(guard.error());
  auto audit = open_audit_log(wanted->log);
  if (!audit) return Failure(audit.error());
  auto access = open_access_log(wanted->log);
  if (!access) return Failure(access.error());
  auto policies = PolicyLibrary::open(policy_options(wanted->policies));
  if (!policies) return Failure(policies.error());
  auto catalogue = open_catalogue(wanted->credentials);
  if (!catalogue) return Failure(catalogue.error());
  if (auto log = start_log(wanted->log); !log) return log;
  for (const std::string& warning : wanted->warnings) log_warn("setting", {{"warning", warning}});
  const config::Changes changes = config::take_over(running, std::move(*wanted));
  const config::ServerSection& section = running.server;
  parts.authenticator.set_key(section.api_key);
  parts.policies = std::move(*policies);
  parts.supply.set_catalogue(std::move(*catalogue));
  parts.policy_reloads.look_again();
  parts.audit = std::move(*audit);
  parts.access = std::move(*access);
  parts.endpoints = endpoint_options(running);
  parts.guard.set_rules(web_rules(section));
  parts.service.set_options(service_options(running));
  parts.server.set_limits(server_options(running).limits);
  log_info("settings reloaded", {{"changed", changes.live.empty() ? "nothing" : joined(changes.live)}});
  if (!changes.restart.empty()) log_warn("settings that need a restart", {{"keys", joined(changes.restart)}});
  return {};
}

int serve(config::ServerConfig config, const std::string& path, const config::Environment& environment) {
  ignore_sigpipe();
  net::io_context io(1);
  const net::any_io_executor executor = io.get_executor();
  SignalSet signals(executor, {SIGTERM, SIGINT, SIGHUP});

  auto store = open_sqlite_store({.path = config.store.path});
  if (!store) return refuse(store.error());
  auto backend = open_backend(io, config);
  if (!backend) return refuse(backend.error());
  auto audit = open_audit_log(config.log);
  if (!audit) return refuse(audit.error());
  auto access = open_access_log(config.log);
  if (!access) return refuse(access.error());
  auto policies = PolicyLibrary::open(policy_options(config.policies));
  if (!policies) return refuse(policies.error());
  Metrics metrics;
  ServiceOptions options = service_options(config);
  options.policies = &*policies;
  options.on_create_stage = [&metrics](CreateStage stage, std::chrono::nanoseconds time) {
    metrics.note_create_stage(stage, time);
  };
  SandboxService service(executor, **store, **backend, system_clock(), std::move(options));
  auto intents = make_renew_intents(executor, config.renew_intent, service);
  if (!intents) return refuse(intents.error());
  http::Client proxy(make_marking_connector((*backend)->connector()));
  Authenticator authenticator(config.server.api_key);
  WebGuard guard(authenticator, web_rules(config.server));
  auto catalogue = open_catalogue(config.credentials);
  if (!catalogue) return refuse(catalogue.error());
  CredentialSupply supply(executor, service, proxy, std::move(*catalogue));
  RouteContext context{service, proxy, authenticator, endpoint_options(config), *policies, &supply};
  http::Router router;
  add_sandbox_routes(router, context);
  add_snapshot_routes(router, context);
  add_sandbox_template_routes(router, context);
  add_endpoint_routes(router, context);
  add_proxy_routes(router, context);
  add_image_routes(router, context);
  add_diagnostics_routes(router, context);
  add_policy_routes(router, context);
  add_vault_routes(router, context);
  add_template_routes(router, context);
  add_docs_routes(router);
  add_pool_routes(router, context);
  add_other_routes(router, context);
  add_capabilities_route(router, context);
  add_metrics_route(router, metrics, [&](const http::Request& request) {
    return gauges(service, authenticator.principal_of(request)->scope());
  });
  http::Handler handler = with_audit([&](http::Request& request) { return router.dispatch(request); }, *audit);
  handler = with_websocket_codes(std::move(handler));
  handler = with_authentication(with_proxy_bytes(std::move(handler), metrics), authenticator);
  http::ServerOptions limits = server_options(config);
  limits.is_known = [&](const http::Request& request) { return authenticator.has_key(request); };
  limits.is_vital = [](const http::Request& request) { return request.path().starts_with("/health"); };
  limits.on_complete = [&](const http::RequestSummary& summary) {
    metrics.note_request(summary);
    access->note(summary);
  };
  handler = with_web_guard(http::with_fence(std::move(handler)), guard);
  http::Handler by_host = with_websocket_codes(with_audit(proxy_by_host(context), *audit));
  by_host = http::with_fence(with_proxy_bytes(std::move(by_host), metrics, true));
  handler = with_sandbox_hosts(std::move(handler), std::move(by_host), context);
  http::Server server(executor, http::with_request_id(std::move(handler)), std::move(limits));
  const std::string host = config.server.host == "localhost" ? "127.0.0.1" : config.server.host;
  const auto address = server.listen(http::Address::tcp(host, config.server.port));
  if (!address) return refuse(address.error());
  service.start();
  if (*intents) (*intents)->start();
  log_info("opensandbox-server is listening",
           {{"address", address->to_string()}, {"config", config::describe(config)}});
  sys::notify_ready();
  const auto tell_when_ready = [&]() -> net::awaitable<void> {
    if (co_await service.until_backend_reachable()) log_info("opensandbox-server is ready");
  };
  TaskGroup background(executor);
  background.spawn("tell when ready", tell_when_ready());
  background.spawn("take over credentials", supply.recover());
  PolicyReloads policy_reloads(executor, *policies);
  background.spawn("watch policy templates", policy_reloads.run());

  const auto life = [&]() -> net::awaitable<void> {
    for (;;) {
      const auto signal = co_await signals.next();
      if (!signal || *signal != SIGHUP) break;
      if (auto done = reload(config, path, environment,
                             {authenticator, service, server, context.endpoints, guard, *audit, *access, *policies,
                              policy_reloads, supply});
          !done) {
        log_error("settings not reloaded, the old ones stay", {{"error", done.error().message}});
      }
    }
    log_info("ending; sandboxes go on");
    service.begin_close();
    co_await server.stop(config.server.timeout_graceful_shutdown);
    if (*intents) co_await (*intents)->close();
    co_await background.close();
    co_await supply.close();
    co_await service.close();
    co_await (*backend)->close();
  };
  run_until_done(io, life());
  return 0;
}

int start(const std::vector<std::string>& args) {
  const auto line = parse(args);
  if (!line) return wrong_usage(line.error().message);
  if (line->help) return std::fputs(kUsage, stdout), 0;
  if (line->version) return std::puts("opensandbox-server " OSB_VERSION), 0;
  if (!line->print.empty()) return std::fputs(config::example_config(line->print).value_or("").c_str(), stdout), 0;
  if (line->settings) return std::fputs(config::settings_page().c_str(), stdout), 0;
  const auto environment = config::Environment::of_this_process();
  if (line->init) return init_config(*line, environment);
  const auto config = config::load_server_config(line->config, environment);
  if (!config) return refuse(config.error());
  if (auto log = start_log(config->log); !log) return refuse(log.error());
  for (const std::string& warning : config->warnings) log_warn("setting", {{"warning", warning}});
  const auto guard = config::check_api_key(*config, environment);
  if (!guard) return refuse(guard.error());
  if (*guard == config::KeyGuard::Acknowledged) {
    log_warn("no API key: everyone who reaches this address can run code on this machine");
  }
  return serve(*config, line->config, environment);
}

}  // namespace
}  // namespace osb::server

int main(int argc, char** argv) {
  try {
    return osb::server::start(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  } catch (const std::exception& bug) {
    std::fprintf(stderr, "opensandbox-server: %s\n", bug.what());
    return 1;
  }
}
