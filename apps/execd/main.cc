#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "async/blocking_pool.h"
#include "async/child_reaper.h"
#include "async/race.h"
#include "async/signals.h"
#include "async/task_group.h"
#include "async/timer.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "execd/code/code_routes.h"
#include "execd/code/code_service.h"
#include "execd/command/command_routes.h"
#include "execd/command/command_service.h"
#include "execd/daemon/access_token.h"
#include "execd/daemon/activity.h"
#include "execd/daemon/clone3_compat.h"
#include "execd/daemon/container_walls.h"
#include "execd/daemon/idle_tidy.h"
#include "execd/daemon/install.h"
#include "execd/daemon/options.h"
#include "execd/file/file_context.h"
#include "execd/file/file_routes.h"
#include "execd/hook/hooks.h"
#include "execd/init/ending.h"
#include "execd/init/entrypoint.h"
#include "execd/init/inherited_fd.h"
#include "execd/init/initialization.h"
#include "execd/init/policy_gate.h"
#include "execd/init/trust_store.h"
#include "execd/isolated/isolated_routes.h"
#include "execd/isolated/isolated_service.h"
#include "execd/isolated/run_proxy.h"
#include "execd/isolated/session_maker.h"
#include "execd/metrics/cgroup_files.h"
#include "execd/metrics/metrics_routes.h"
#include "execd/metrics/otlp_exporter.h"
#include "execd/metrics/telemetry.h"
#include "execd/owner/owner_names.h"
#include "execd/proxy/port_proxy.h"
#include "execd/proxy/tunnel.h"
#include "execd/pty/pty_routes.h"
#include "execd/pty/pty_service.h"
#include "execd/run/environment.h"
#include "execd/run/run_host.h"
#include "execd/session/session_routes.h"
#include "execd/session/session_service.h"
#include "http/middleware.h"
#include "http/path_token.h"
#include "http/router.h"
#include "http/server.h"
#include "http/socket_address.h"
#include "sys/process_tree.h"

namespace osb::execd {
namespace {

using namespace race;
using std::chrono::milliseconds;

constexpr std::uint16_t kJupyterPort = 44771;

// Files that are walked, copied and replaced, process trees that are searched.
constexpr std::size_t kBlockingThreads = 8;

// Without a request for so long we are idle and give memory back.
constexpr milliseconds kIdle{1000};

// The time that a collector has for the last numbers: it must not delay the end of a sandbox.
constexpr milliseconds kLastExport{2000};

// The time that the end may take beyond its limit: more than all its steps together. Only a thread that hangs in a dead
// file system takes longer, and that would be for ever.
constexpr milliseconds kLastResort{10'000};

// Clients keep connections for minutes, upload what they like, and may read a stream as slowly as they want: that
// holds the command back, which is what they asked for.
http::ServerLimits limits() {
  http::ServerLimits out;
  out.idle = std::chrono::minutes(15);
  out.header_time = std::chrono::minutes(1);
  out.body_stall = std::chrono::hours(1);
  out.write_stall = std::chrono::hours(24);
  return out;
}

std::string working_directory() {
  char* path = ::get_current_dir_name();
  std::string out = path == nullptr ? "/" : path;
  std::free(path);
  return out;
}

// On stderr, also with another log: there a person looks when the daemon does not start.
int refuse(const Error& error) {
  std::fprintf(stderr, "execd: %s\n", error.message.c_str());
  return 1;
}

// Where the sockets listen, opened or inherited; the ports are the proxy's own.
Result<std::string> listen(const Options& options, http::Server& server, PortProxy& proxy) {
  std::string addresses;
  // Also when execd did not open the port itself: clients use this number for execd.
  if (options.port != 0) proxy.add_own_port(options.port);
  if (!options.opens_port()) proxy.add_own_port(kExecdPort);
  for (const int fd : options.listen_fds) {
    http::SocketAddress bound;
    bound.length = sizeof bound.storage;
    if (::getsockname(fd, bound.get(), &bound.length) < 0) {
      return fail(Code::InvalidRequest, "--listen-fd " + std::to_string(fd) + ": not a socket");
    }
    const http::Address address = http::from_sockaddr(bound);
    if (auto taken = server.listen(UniqueFd(fd)); !taken) return with_context("--listen-fd", taken.error());
    if (address.port != 0) proxy.add_own_port(address.port);
    addresses += (addresses.empty() ? "" : ", ") + address.to_string();
  }
  if (!options.opens_port()) return addresses;
  const auto address = server.listen(http::Address::tcp("0.0.0.0", options.port));
  if (!address) return Failure(address.error());
  proxy.add_own_port(address->port);
  return addresses + (addresses.empty() ? "" : ", ") + address->to_string();
}

// The official code interpreter clients connect to Jupyter's port of the loopback before they run code. Where the image
// brings no Jupyter, execd runs the code itself and answers there. A port that is taken is left alone.
void listen_for_code(const Options& options, const Environment& env, http::Server& server) {
  if (!options.jupyter_host.empty()) return;
  std::uint16_t port = kJupyterPort;
  if (const auto it = env.find("JUPYTER_PORT"); it != env.end()) {
    port = parse_number<std::uint16_t>(it->second).value_or(0);
    if (port == 0) return;
  }
  if (auto taken = server.listen(http::Address::tcp("127.0.0.1", port)); !taken) {
    log_debug("not on Jupyter's port", {{"error", taken.error().message}});
  }
}

// Nothing: code runs in processes of ours.
std::optional<Result<jupyter::JupyterServer::Options>> jupyter_options(const Options& options) {
  if (options.jupyter_host.empty()) return std::nullopt;
  if (options.jupyter_token.empty()) {
    log_warn("Jupyter is not used: JUPYTER_TOKEN is not set", {{"host", options.jupyter_host}});
    return std::nullopt;
  }
  auto parsed = jupyter::JupyterServer::parse(options.jupyter_host, options.jupyter_token);
  if (!parsed) log_warn("Jupyter cannot be used, and so code does not run", {{"error", parsed.error().message}});
  return parsed;
}

// Null: no telemetry is configured, or its settings cannot be used.
std::unique_ptr<OtlpExporter> make_exporter(const Environment& env,
                                            std::shared_ptr<const sys::CgroupFiles> cgroup_files) {
  auto options = OtlpOptions::from_environment(env);
  if (!options) log_warn("telemetry is off", {{"error", options.error().message}});
  if (!options || !*options) return nullptr;
  log_info("telemetry is on", {{"to", (*options)->collector.origin()}});
  return std::make_unique<OtlpExporter>(std::move(**options), std::move(cgroup_files));
}

void report_bug(const http::Request& request, const std::exception& bug) {
  log_error("http session failed",
            {{"error", bug.what()}, {"method", request.method}, {"path", http::loggable_path(request.path())}});
}

// Waits for a signal that ends execd, and returns it. Other signals go to the entrypoint; with `init` all of them, as
// long as it runs.
net::awaitable<int> serve_signals(SignalSet& signals, Entrypoint* entrypoint, bool init) {
  for (;;) {
    const auto number = co_await signals.next();
    if (!number) co_return SIGTERM;
    const bool forwarded = init && entrypoint != nullptr && entrypoint->running();
    if ((*number == SIGTERM || *number == SIGINT) && !forwarded) co_return *number;
    if (entrypoint != nullptr) {
      entrypoint->signal(*number);
    } else if (*number == SIGHUP || *number == SIGQUIT) {
      co_return *number;
    }
  }
}

// Ends execd in the same way as SIGTERM from outside.
net::awaitable<void> end_with(Entrypoint& entrypoint) {
  if (co_await entrypoint.ended()) ::kill(::getpid(), SIGTERM);
}

// The entrypoint and the periodic hooks start when preStart has succeeded. Without an entrypoint a failure ends execd.
net::awaitable<void> begin_with_hooks(Hooks& hooks, Entrypoint* entrypoint, const CommandEnvironment& environment,
                                      bool& refused) {
  HookEnd end = co_await hooks.begin();
  if (end.failure.empty()) {
    if (entrypoint != nullptr) {
      co_await entrypoint->lines_written();  // a log shows the hook's output first
      entrypoint->start(environment.daemon());
    }
    hooks.start_periodic();
    co_return;
  }
  if (entrypoint != nullptr) co_return entrypoint->refuse(end.code, std::move(end.failure));
  log_error("hook failed", {{"error", end.failure}});
  refused = true;
  ::kill(::getpid(), SIGTERM);
}

net::awaitable<void> hurry_on_second_signal(SignalSet& signals, Event& hurry) {
  for (;;) {
    const auto number = co_await signals.next();
    if (!number) co_return;
    if (*number == SIGTERM || *number == SIGINT) hurry.set();
  }
}

int serve(const Options& options, const Environment& env) {
  ignore_sigpipe();
  std::signal(SIGXFSZ, SIG_IGN);  // a log at its limit is full, no reason to end
  net::io_context io(1);
  const net::any_io_executor executor = io.get_executor();
  SignalSet signals(executor, {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH});
  if (auto made = sys::become_subreaper(); !made) log_warn("orphans are not ours", {{"error", made.error().message}});
  ChildReaper reaper(executor);
  BlockingPool pool(kBlockingThreads);

  const auto cgroup_files = open_cgroup_files(options.cgroup_files);
  const std::unique_ptr<OtlpExporter> exporter = make_exporter(env, cgroup_files);
  Telemetry& telemetry = exporter ? exporter->telemetry() : no_telemetry();

  auto command_options = CommandOptions::from_environment(env);
  if (!command_options) return refuse(command_options.error());
  CommandEnvironment environment(env, working_directory());
  MetricsContext metrics(executor, cgroup_files);
  RunHost host(executor, reaper, pool, {},
               OomKills([&metrics]() -> const sys::CgroupStats& { return metrics.sampler().stats; }));
  CodeService code(host, environment,
                   {.log = command_options->event_log(true),
                    .interrupt_grace = code_interrupt_grace(env, command_options->interrupt_grace),
                    .jupyter = jupyter_options(options)},
                   telemetry);
  const std::string command_temp = command_options->temp_directory;
  CommandService commands(host, environment, std::move(*command_options), telemetry);

  IsolatedService isolated(host, environment, options.isolation, command_temp);
  IsolatedRoutes isolated_routes(isolated, ::getpid() == 1 ? "pid1" : options.init ? "subreaper" : "none");
  SessionService sessions(host, environment, telemetry);
  PtyService terminals(host, environment);
  OwnerDatabase owners;
  const FileContext files{.pool = pool,
                          .owners = owners,
                          .env = environment.daemon(),
                          .cwd = environment.cwd(),
                          .reserve = options.reserve};

  http::Router router({"NOT_FOUND", "METHOD_NOT_ALLOWED", "INVALID_REQUEST_BODY"});
  router.get("/ping", [](http::Request&) -> net::awaitable<http::Response> { co_return http::empty_response(); });
  add_metrics_routes(router, metrics);
  add_command_routes(router, commands, {&sessions, &code});
  add_session_routes(router, sessions);
  add_pty_routes(router, terminals);
  add_tunnel_route(router);
  add_file_routes(router, files);
  isolated_routes.add(router);
  add_code_routes(router, code, [&commands](const api::RunCommand& command) -> Result<http::Response> {
    const auto started = commands.start(command);
    if (!started) return Failure(started.error());
    return command_response(**started);
  });
  router.del("/code", interrupt_handler({&code, &commands, &sessions}));
  AccessToken token(options.access_token);
  std::optional<Entrypoint> entrypoint;
  const auto hook_output = [&entrypoint](std::string lines) {
    if (entrypoint) return entrypoint->append(std::move(lines));
    log_info("hook", {{"output", lines}});
  };
  Hooks hooks(host, environment, options.lifecycle_hooks, hook_output, StartupStatus(options.startup_status_file));
  TaskGroup background(executor);
  bool refused = false;
  const auto begin = [&] {
    if (hooks.any()) {
      background.spawn("hooks", begin_with_hooks(hooks, entrypoint ? &*entrypoint : nullptr, environment, refused));
    } else if (entrypoint) {
      entrypoint->start(environment.daemon());
    }
  };
  const auto sandbox_id = env.find("OPENSANDBOX_ID");
  Initialization initialization(options.await_init, sandbox_id == env.end() ? "" : sandbox_id->second);
  initialization.add_routes(
      router, [&](api::InitializeExecd wanted) -> net::awaitable<Result<std::vector<std::string>>> {
        if (!wanted.lifecycle.empty()) {
          if (const auto taken = hooks.replace(std::move(wanted.lifecycle)); !taken) {
            co_return fail(Code::InvalidRequest, "lifecycle: " + taken.error().message);
          }
        }
        std::vector<std::string> warnings;
        if (!wanted.telemetry_attributes.empty()) {
          if (exporter) {
            exporter->add_attributes({wanted.telemetry_attributes.begin(), wanted.telemetry_attributes.end()});
          } else {
            warnings.emplace_back("telemetry: no collector is configured, so the attributes have no effect");
          }
        }
        Environment variables(wanted.envs.begin(), wanted.envs.end());
        variables.insert_or_assign("OPENSANDBOX_ID", wanted.sandbox_id);
        environment.add(variables);
        if (!wanted.access_token_hash.empty()) token.require_hash(wanted.access_token_hash);
        begin();
        co_return warnings;
      });
  Activity activity;
  activity.add_source([&commands] { return commands.running() > 0; });
  activity.add_source([&terminals] { return terminals.any_running(); });
  activity.add_source(
      [&code] { return std::ranges::any_of(code.list(""), [](const auto& context) { return context->busy(); }); });
  activity.add_source([&isolated] {
    return std::ranges::any_of(isolated.sessions(), [](const auto& entry) { return entry.second->active > 0; });
  });
  router.get("/activity", [&activity](http::Request&) -> net::awaitable<http::Response> {
    co_return http::json_response(200, Activity::to_json(activity.report()));
  });
  http::Server* serving = nullptr;
  router.post("/connections/end-idle", [&serving](http::Request&) -> net::awaitable<http::Response> {
    serving->end_idle();
    co_return http::empty_response();
  });

  const http::Handler own = http::with_request_id(
      http::with_fence([&](http::Request& request) { return router.dispatch(request); }, "RUNTIME_ERROR"));
  PortProxy proxy(executor, own);
  http::ServerOptions server_options;
  server_options.limits = limits();
  IdleTidy tidy(executor, kIdle, give_memory_back);
  server_options.on_complete = [&tidy, &metrics, log = http::access_log(LogLevel::Debug),
                                record = record_requests(telemetry)](const http::RequestSummary& summary) {
    log(summary);
    record(summary);
    tidy.note_activity();
    metrics.sampler();
  };
  server_options.on_exception = report_bug;
  server_options.is_known = [token](const http::Request& request) {
    return token.matches(request.headers.get(kAccessTokenHeader));
  };
  const http::Handler guarded =
      initialization.guard(activity.counting([&](http::Request& request) { return proxy.handle(request); }));
  http::Server server(executor, with_access_token(token, guarded), std::move(server_options));
  serving = &server;

  const auto addresses = listen(options, server, proxy);
  if (!addresses) return refuse(addresses.error());
  listen_for_code(options, env, server);
  // Standard output is the entrypoint's alone where the two share it.
  const bool shared_output = !options.entrypoint.empty() && options.entrypoint_log.empty();
  std::fprintf(shared_output ? stderr : stdout, "execd %s listening on %s\n", OSB_VERSION, addresses->c_str());
  std::fflush(stdout);

  if (!options.entrypoint.empty()) {
    entrypoint.emplace(
        executor, reaper, pool,
        Entrypoint::Plan{options.entrypoint, options.entrypoint_log, options.entrypoint_log_times, options.exit_dir});
  }
  if (!options.await_init) begin();
  if (exporter) background.spawn("export metrics", exporter->run());

  if (entrypoint && options.end_with_entrypoint) background.spawn("end with entrypoint", end_with(*entrypoint));

  int status = 0;
  bool ended_by_itself = false;  // the entrypoint, before SIGTERM
  Event hurry(executor);
  Ending ending{reaper, entrypoint ? &*entrypoint : nullptr, {}, hurry};
  ending.services.push_back([&](milliseconds grace) { return commands.shutdown(grace); });
  ending.services.push_back([&](milliseconds) { return sessions.shutdown(); });
  ending.services.push_back([&](milliseconds) { return code.shutdown(); });
  ending.services.push_back([&](milliseconds) { return terminals.shutdown(); });
  ending.services.push_back([&](milliseconds) { return isolated.shutdown(); });
  ending.services.push_back([&](milliseconds) { return hooks.shutdown(); });
  const auto end_regardless = [&]() -> net::awaitable<void> {
    co_await (sleep_for(options.shutdown_timeout) || hurry.wait());
    co_await sleep_for(kLastResort);
    log_warn("ended before everything else has", {});
    io.stop();
  };
  TaskGroup last_resort(executor);  // closed last: it is there for the other groups
  const auto life = [&]() -> net::awaitable<void> {
    const int number = co_await serve_signals(signals, ending.entrypoint, options.init);
    log_info("ending", {{"signal", number}});
    last_resort.spawn("end regardless", end_regardless());
    if (!initialization.done()) ending.entrypoint = nullptr;  // not started
    ended_by_itself = ending.entrypoint != nullptr && entrypoint->begun() && !entrypoint->running();
    metrics.closing.set();
    TaskGroup tasks(executor);
    tasks.spawn("second signal", hurry_on_second_signal(signals, hurry));
    bool stopped = false;
    Notifier server_stopped(executor);
    const auto stop = [&](milliseconds grace) -> net::awaitable<void> {
      co_await server.stop(grace);
      stopped = true;
      server_stopped.notify_all();
    };
    tasks.spawn("stop server", stop(options.shutdown_timeout + std::chrono::seconds(1)));
    co_await end_processes(ending, number, options.shutdown_timeout);
    co_await server_stopped.wait_until([&] { return stopped; });
    co_await tasks.close();
    co_await background.close();
    if (exporter) {
      if (auto sent = co_await exporter->flush(kLastExport); !sent) {
        log_warn("metrics not exported", {{"error", sent.error().message}});
      }
    }
    co_await last_resort.close();
  };
  net::co_spawn(executor, life(), [&](std::exception_ptr failed) {
    if (failed) status = 1;
    io.stop();
  });
  io.run();
  if (ended_by_itself && entrypoint->record()) status = entrypoint->record()->shell_code();
  if (refused && !entrypoint) status = 1;
  host.close_cgroups();
  log_info("ended", {{"status", status}});
  // Threads that hang in a dead file system are not waited for, and the order in which frames and their owners go does
  // not matter any more.
  std::_Exit(status);
}

int start(int argc, char** argv) {
  if (argc > 2 && std::string_view(argv[1]) == "--keep-core-limit") return run_script_behind_walls(argv);
  if (argc > 2 && std::string_view(argv[1]) == "--wait-for-policy") return run_behind_policy(argv);
  if (argc == 3 && std::string_view(argv[1]) == "--install") {
    const auto installed = install(argv[0], argv[2]);
    return installed ? 0 : refuse(installed.error());
  }
  // Processes of isolated sessions: this program again, with descriptors that execd or sandboxd gave it.
  if (argc > 2 && argv[1] == kRunProxyArgument) run_proxy(argv[2]);
  if (argc > 2 && argv[1] == kSessionMakerArgument) make_session(argc - 2, argv + 2);
  const char* compat = std::getenv("EXECD_CLONE3_COMPAT");
  if (auto applied = apply_clone3_compat(compat == nullptr ? "" : compat, argv); !applied) {
    return refuse(applied.error());
  }
  keep_inherited_fds_from_children();  // not before: the line above may start this program anew
  Environment env = parse_environ(environ);
  const std::vector<std::string_view> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  const auto options = parse_options(args, env);
  if (!options) {
    std::fprintf(stderr, "execd: %s\n", options.error().message.c_str());
    if (options.error().exit_status == 2) std::fputs(usage(), stderr);
    return options.error().exit_status;
  }
  if (options->action != Options::Action::Serve) {
    const bool version = options->action == Options::Action::ShowVersion;
    std::fputs(version ? "execd " OSB_VERSION "\n" : usage(), stdout);
    return 0;
  }
  wipe_secrets(env, argv, environ);
  // Commands often run as our own user: keep them out of our memory, where the token still is.
  ::prctl(PR_SET_DUMPABLE, 0);
  LogOptions log;
  log.level = options->log_level;
  log.format = LogFormat::Json;
  log.outputs = options->log_outputs;
  if (auto configured = configure_log(log); !configured) return refuse(configured.error());
  trust_given_authority(env);
  return serve(*options, env);
}

}  // namespace
}  // namespace osb::execd

int main(int argc, char** argv) {
  // Threads of the pool are few and idle: one arena for all keeps the process small.
  ::mallopt(M_ARENA_MAX, 1);
  try {
    return osb::execd::start(argc, argv);
  } catch (const std::exception& bug) {
    std::fprintf(stderr, "execd: %s\n", bug.what());
    return 1;
  }
}
