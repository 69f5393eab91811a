#include <csignal>
#include <cstdio>
#include <ctime>
#include <malloc.h>
#include <string>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "async/blocking_pool.h"
#include "async/child_reaper.h"
#include "async/run_loop.h"
#include "async/signals.h"
#include "base/log.h"
#include "base/time.h"
#include "http/middleware.h"
#include "http/server.h"
#include "sys/file_lock.h"
#include "sys/install_file.h"
#include "sys/staged_file.h"
#include "taskexecutor/options.h"
#include "taskexecutor/routes.h"
#include "taskexecutor/supervisor.h"
#include "taskexecutor/tasks.h"

namespace osb::taskexecutor {
namespace {

constexpr std::chrono::seconds kStopLimit{30};

int refuse(const Error& error) {
  log_error("not started", {{"error", error.message}});
  std::fprintf(stderr, "task-executor: %s\n", error.message.c_str());
  return 1;
}

// Older log files than the settings allow.
void remove_old_logs(const std::string& path, const Options& options) {
  if (options.log_max_days == 0) return;
  const std::time_t oldest = unix_millis() / 1000 - std::time_t{options.log_max_days} * 24 * 60 * 60;
  for (int i = 1; i <= options.log_max_backups; ++i) {
    const std::string file = path + "." + std::to_string(i);
    struct stat st{};
    if (::stat(file.c_str(), &st) == 0 && st.st_mtime < oldest) ::unlink(file.c_str());
  }
}

Result<void> open_log(const Options& options) {
  if (auto made = sys::make_directories(options.log_dir, 0755); !made) return made;
  LogOptions log;
  const std::string path = options.log_dir + "/task-executor.log";
  remove_old_logs(path, options);
  log.outputs = {path};
  if (options.log_max_megabytes > 0) log.rotate_bytes = static_cast<std::uint64_t>(options.log_max_megabytes) << 20;
  log.keep_files = options.log_max_backups + 1;
  return configure_log(log);
}

http::ServerOptions server_options() {
  http::ServerOptions out;
  out.limits.header_time = std::chrono::seconds(30);
  out.limits.body_stall = std::chrono::seconds(30);
  out.limits.write_stall = std::chrono::seconds(30);
  out.on_complete = http::access_log(LogLevel::Debug);
  return out;
}

net::awaitable<void> serve(const Options& options, Environment env, int& status) {
  const auto executor = co_await net::this_coro::executor;
  ChildReaper reaper(executor);  // as PID 1 of its container it frees every orphan
  BlockingPool pool(1);
  SignalSet signals(executor, {SIGINT, SIGTERM});
  Tasks tasks(executor, pool, {options.data_dir, std::move(env), options.sidecar ? options.main_container : ""});
  if (auto recovered = co_await tasks.recover(); !recovered) {
    status = refuse(recovered.error());
    co_return;
  }
  const http::Handler handler = http::with_fence(make_handler(tasks), "Internal Server Error");
  http::Server server(executor, handler, server_options());
  const auto address = http::Address::parse(options.listen_addr);
  const auto bound = address ? server.listen(*address) : address;
  if (!bound) {
    status = refuse(bound.error());
    co_await tasks.close();
    co_return;
  }
  log_info("listening", {{"address", bound->to_string()}, {"version", OSB_VERSION}});
  // For a parent that let the kernel choose the port.
  std::printf("task-executor %s listening on %s\n", OSB_VERSION, bound->to_string().c_str());
  std::fflush(stdout);
  (void)co_await signals.next();
  log_info("ending", {});
  co_await server.stop(kStopLimit);
  co_await tasks.close();
}

int start(int argc, char** argv) {
  if (argc > 2 && std::string_view(argv[1]) == kSuperviseArgument) supervise(argc - 2, argv + 2);
  if (argc == 3 && std::string_view(argv[1]) == "--install") {
    // No log yet, and none is wanted.
    const auto installed = sys::install_file("/proc/self/exe", argv[2], "task-executor");
    if (!installed) std::fprintf(stderr, "task-executor: %s\n", installed.error().message.c_str());
    return installed ? 0 : 1;
  }
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  Environment env = parse_environment(entries);
  const std::vector<std::string_view> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  const auto options = parse_options(args, env);
  if (!options) {
    std::fprintf(stderr, "task-executor: %s\n%s", options.error().message.c_str(), usage());
    return 2;
  }
  if (options->action != Options::Action::Serve) {
    const bool version = options->action == Options::Action::ShowVersion;
    std::fputs(version ? "task-executor " OSB_VERSION "\n" : usage(), stdout);
    return 0;
  }
  if (auto opened = open_log(*options); !opened) return refuse(opened.error());
  if (auto made = sys::make_directories(options->data_dir, 0755); !made) return refuse(made.error());
  const auto lock = sys::lock_file(options->data_dir + "/.lock");
  if (!lock) return refuse(lock.error());
  ignore_sigpipe();
  net::io_context io(1);
  int status = 0;
  run_until_done(io, serve(*options, std::move(env), status));
  return status;
}

}  // namespace
}  // namespace osb::taskexecutor

int main(int argc, char** argv) {
  ::mallopt(M_ARENA_MAX, 1);
  try {
    return osb::taskexecutor::start(argc, argv);
  } catch (const std::exception& bug) {
    std::fprintf(stderr, "task-executor: %s\n", bug.what());
    return 1;
  }
}
