#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "async/signals.h"
#include "base/log.h"
#include "http/middleware.h"
#include "http/server.h"
#include "mcp/command_line.h"
#include "mcp/http_endpoint.h"
#include "mcp/stdio.h"
#include "mcp/tool.h"

namespace osb::mcp {
namespace {

constexpr std::chrono::seconds kDrain(5);

int refuse(const std::string& why, int status = 1) {
  std::fprintf(stderr, "opensandbox-mcp: %s\n", why.c_str());
  return status;
}

// Runs `serve` to its end; the first signal calls `stop`, the second ends the process at once.
int run(net::io_context& io, net::awaitable<void> serve, const std::function<void()>& stop) {
  SignalSet signals(io.get_executor(), {SIGTERM, SIGINT, SIGHUP});
  const auto watch = [&]() -> net::awaitable<void> {
    if (!co_await signals.next()) co_return;
    log_info("ending");
    stop();
    if (co_await signals.next()) std::_Exit(1);
  };
  int status = 0;
  net::co_spawn(io, watch(), [](std::exception_ptr) {});
  net::co_spawn(io, std::move(serve), [&](std::exception_ptr failed) {
    if (failed) status = 1;
    io.stop();
  });
  io.run();
  return status;
}

int serve_stdio(net::io_context& io, const sdk::Client& client, const std::vector<Tool>& tools,
                const CommandLine& line) {
  // Only the protocol may get to the client: all other output goes to stderr.
  UniqueFd input(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  UniqueFd output(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!input || !output) return refuse("stdin and stdout have to be open");
  if (::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) ::close(STDOUT_FILENO);
  StdioServer server(io.get_executor(), client, tools, line.session);
  return run(io, server.run(std::move(input), std::move(output)), [&server] { server.stop(); });
}

int serve_http(net::io_context& io, const sdk::Client& client, const std::vector<Tool>& tools,
               const CommandLine& line) {
  HttpEndpoint endpoint(io.get_executor(), client, tools, line.session, line.http);
  http::ServerOptions options;
  options.on_complete = http::access_log(LogLevel::Debug);
  options.is_known = [&endpoint](const http::Request& request) { return endpoint.has_token(request); };
  http::Server server(io.get_executor(),
                      http::with_fence([&endpoint](http::Request& request) { return endpoint.handle(request); }),
                      std::move(options));
  const auto address = server.listen(http::Address::tcp(line.host, line.port));
  if (!address) return refuse(address.error().message);
  log_info("opensandbox-mcp is ready",
           {{"url", "http://" + address->to_string() + line.http.path}, {"token", !line.http.token.empty()}});
  Event stopping(io.get_executor());
  const auto life = [&]() -> net::awaitable<void> {
    co_await stopping.wait();
    co_await endpoint.close();
    co_await server.stop(kDrain);
  };
  return run(io, life(), [&stopping] { stopping.set(); });
}

int start(const std::vector<std::string>& args) {
  auto line = parse_command_line(args);
  if (!line) return refuse(line.error().message + "\n" + std::string(kUsage), 2);
  if (line->help) return std::fputs(std::string(kUsage).c_str(), stdout), 0;
  if (line->version) return std::puts("opensandbox-mcp " OSB_VERSION), 0;
  if (auto filled = fill_secrets(*line); !filled) return refuse(filled.error().message);
  LogOptions log;
  log.level = line->log_level;
  if (auto started = configure_log(log); !started) return refuse(started.error().message);
  ignore_sigpipe();
  net::io_context io(1);
  auto client = sdk::Client::open(io.get_executor(), line->connection);
  if (!client) return refuse(client.error().message, 2);
  const std::vector<Tool> tools = line->all_tools ? all_tools() : common_tools();
  return line->stdio ? serve_stdio(io, *client, tools, *line) : serve_http(io, *client, tools, *line);
}

}  // namespace
}  // namespace osb::mcp

int main(int argc, char** argv) {
  try {
    return osb::mcp::start(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  } catch (const std::exception& bug) {
    std::fprintf(stderr, "opensandbox-mcp: %s\n", bug.what());
    return 1;
  }
}
