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
#include "execd/daemon/clone3_compat.h"
#include "execd/daemon/idle_tidy.h"
#include "execd/daemon/options.h"
#include "execd/file/file_context.h"
#include "execd/file/file_routes.h"
#include "execd/init/ending.h"
#include "execd/init/entrypoint.h"
#include "execd/init/inherited_fd.h"
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

// Null: no telemetry is configured, or its settings cannot be used.
std::unique_ptr<OtlpExporter> make_exporter(const Environment& env,
                                            std::shared_ptr<const sys::CgroupFiles> cgroup_files) {
  auto options = OtlpOptions::from_environment(env);
  if (!options) log_warn("telemetry is off", {{"error", options.error().message}});
  if (!options || !*options) return nullptr;
  log_info("telemetry is on", {{"to", (*options)->origin}});
  return std::make_unique<OtlpExporter>(std::move(**options), std::move(cgroup_files));
}

void report_bug(const http::Request& request, const std::exception& bug) {
  log_error("http session failed",
            {{"error", bug.what()}, {"method", request.method}, {"path", http::loggable_path(request.path())}});
}

// Waits for a signal that ends execd, and returns it. Other signals go to the entrypoint.
net::awaitable<int> serve_signals(SignalSet& signals, Entrypoint* entrypoint) {
  for (;;) {
    const auto number = co_await signals.next();
    if (!number) co_return SIGTERM;
    if (*number == SIGTERM || *number == SIGINT) co_return *number;
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
  CodeService code(host, environment, command_options->event_log(true), command_options->interrupt_grace, telemetry);
  CommandService commands(host, environment, std::move(*command_options), telemetry);

  SessionService sessions(host, environment, telemetry);
  PtyService terminals(host, environment);
  OwnerDatabase owners;
  const FileContext files{pool, owners, environment.daemon(), environment.cwd()};

  http::Router router({"NOT_FOUND", "METHOD_NOT_ALLOWED", "INVALID_REQUEST_BODY"});
  router.get("/ping", [](http::Request&) -> net::awaitable<http::Response> { co_return http::empty_response(); });
  add_metrics_routes(router, metrics);
  add_command_routes(router, commands, {&sessions, &code});
  add_session_routes(router, sessions);
  add_pty_routes(router, terminals);
  add_tunnel_route(router);
  add_file_routes(router, files);
  add_code_routes(router, code, [&commands](const api::RunCommand& command) -> Result<http::Response> {
    const auto started = commands.start(command);
    if (!started) return Failure(started.error());
    return command_response(**started);
  });
  router.del("/code", interrupt_handler({&code, &commands, &sessions}));
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
  server_options.is_known = [&token = options.access_token](const http::Request& request) {
    return token.empty() || equal_in_constant_time(token, request.headers.get(kAccessTokenHeader));
  };
  http::Server server(
      executor, with_access_token(options.access_token, [&](http::Request& request) { return proxy.handle(request); }),
      std::move(server_options));
  serving = &server;

  const auto addresses = listen(options, server, proxy);
  if (!addresses) return refuse(addresses.error());
  listen_for_code(options, env, server);
  std::printf("execd %s listening on %s\n", OSB_VERSION, addresses->c_str());
  std::fflush(stdout);

  std::optional<Entrypoint> entrypoint;
  if (!options.entrypoint.empty()) {
    entrypoint.emplace(
        executor, reaper, pool,
        Entrypoint::Plan{options.entrypoint, options.entrypoint_log, options.entrypoint_log_times, options.exit_dir});
    entrypoint->start(env);
  }

  TaskGroup background(executor);
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
  const auto end_regardless = [&]() -> net::awaitable<void> {
    co_await (sleep_for(options.shutdown_timeout) || hurry.wait());
    co_await sleep_for(kLastResort);
    log_warn("ended before everything else has", {});
    io.stop();
  };
  TaskGroup last_resort(executor);  // closed last: it is there for the other groups
  const auto life = [&]() -> net::awaitable<void> {
    const int number = co_await serve_signals(signals, ending.entrypoint);
    log_info("ending", {{"signal", number}});
    last_resort.spawn("end regardless", end_regardless());
    ended_by_itself = entrypoint && !entrypoint->running();
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
  host.close_cgroups();
  log_info("ended", {{"status", status}});
  // Threads that hang in a dead file system are not waited for, and the order in which frames and their owners go does
  // not matter any more.
  std::_Exit(status);
}

int start(int argc, char** argv) {
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
    if (options.error().exit_status == 2) std::fputs(usage().data(), stderr);
    return options.error().exit_status;
  }
  if (options->action != Options::Action::Serve) {
    const bool version = options->action == Options::Action::ShowVersion;
    std::fputs(version ? "execd " OSB_VERSION "\n" : usage().data(), stdout);
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
