#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "async/run_loop.h"
#include "async/signals.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "egress/host/confine.h"
#include "egress/host/host_service.h"
#include "egress/sidecar/sidecar_service.h"
#include "egress/sidecar/supervise.h"
#include "tls/context.h"

namespace osb::egress {
namespace {

constexpr const char* kUsage =
    "usage: opensandbox-egress [--supervise]\n"
    "       opensandbox-egress --host --link-fd N --udp-fd N --tcp-fd N --intercept-fd N\n"
    "       opensandbox-egress --help | --version\n"
    "\n"
    "Answers the DNS questions of sandboxes with a network policy, puts credentials into their requests, and serves "
    "the\n"
    "API of policies and credential vaults.\n"
    "\n"
    "Without options it is the sidecar of one sandbox: it filters the packets of its own network namespace and is\n"
    "configured by variables OPENSANDBOX_EGRESS_... (docs/egress-sidecar.md). It needs CAP_NET_ADMIN.\n"
    "\n"
    "  --host       serve all sandboxes of a host without privilege; sandboxd starts it so\n"
    "  --link-fd N  a Unix stream socket to sandboxd\n"
    "  --udp-fd N   a bound UDP socket for questions\n"
    "  --tcp-fd N   a listening TCP socket for questions\n"
    "  --intercept-fd N  a listening TCP socket for connections that are intercepted\n"
    "  --supervise  run it as a child, and again whenever that ends; the first process of the sidecar's container\n";

struct CommandLine {
  bool host = false, help = false, version = false;
  int link = -1, udp = -1, tcp = -1, intercept = -1;
};

int refuse(const Error& error) {
  std::fprintf(stderr, "opensandbox-egress: %s\n", error.message.c_str());
  return 1;
}

// Sockets only: a wrong number must not take over an open file of somebody else.
bool is_socket(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
}

Result<CommandLine> parse(const std::vector<std::string>& args) {
  CommandLine out;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    int* fd = arg == "--link-fd"        ? &out.link
              : arg == "--udp-fd"       ? &out.udp
              : arg == "--tcp-fd"       ? &out.tcp
              : arg == "--intercept-fd" ? &out.intercept
                                        : nullptr;
    if (arg == "--host") {
      out.host = true;
    } else if (arg == "--help" || arg == "-h") {
      out.help = true;
    } else if (arg == "--version") {
      out.version = true;
    } else if (fd != nullptr) {
      const auto number = i + 1 < args.size() ? parse_number<int>(args[i + 1]) : std::nullopt;
      if (!number || !is_socket(*number))
        return fail(Code::InvalidRequest, arg + " needs the number of an open socket");
      *fd = *number;
      ++i;
    } else {
      return fail(Code::InvalidRequest, "unknown option " + arg);
    }
  }
  return out;
}

// `serve` gets a task that ends with the first signal to stop. `confine` is called when the loop is set up.
template <typename Serve>
int run(Serve serve, Result<void> (*confine)() = nullptr) {
  ignore_sigpipe();
  // The process reads what hostile code sends: neither it nor a child gains privilege, and it leaves no core file.
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  net::io_context io(1);
  SignalSet signals(io.get_executor(), {SIGTERM, SIGINT});
  if (confine != nullptr) {
    if (auto confined = confine(); !confined) return refuse(confined.error());
  }
  Result<void> result;
  const auto stop = [&]() -> net::awaitable<void> { (void)co_await signals.next(); };
  const auto life = [&]() -> net::awaitable<void> { result = co_await serve(stop()); };
  run_until_done(io, life());
  return result ? 0 : refuse(result.error());
}

int run_host(const CommandLine& line) {
  if (line.link < 0 || line.udp < 0 || line.tcp < 0 || line.intercept < 0) {
    std::fprintf(stderr, "opensandbox-egress: --host needs --link-fd, --udp-fd, --tcp-fd and --intercept-fd\n%s",
                 kUsage);
    return 2;
  }
  if (auto configured = configure_log({}); !configured) return refuse(configured.error());
  ProcessUsage usage;  // its file cannot be opened later
  // OpenSSL reads its configuration when it is used first, and no file can be opened later.
  tls::ClientOptions nobody;
  nobody.insecure = true;
  if (auto first = tls::ClientContext::make(nobody); !first) return refuse(first.error());
  return run(
      [&](net::awaitable<void> stop) {
        return serve_host({.link = UniqueFd(line.link),
                           .udp = UniqueFd(line.udp),
                           .tcp = UniqueFd(line.tcp),
                           .intercept = UniqueFd(line.intercept),
                           .usage = std::move(usage)},
                          std::move(stop));
      },
      &confine_process);
}

int run_sidecar() {
  auto settings = read_settings([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  });
  if (!settings) return refuse(settings.error());
  for (const char* secret : {"OPENSANDBOX_EGRESS_TOKEN", "OPENSANDBOX_EGRESS_UPSTREAM_PROXY_AUTH"}) ::unsetenv(secret);
  LogOptions log;
  log.level = settings->log_level;
  log.format = LogFormat::Json;
  log.outputs = settings->log_outputs;
  log.time_key = "ts";
  log.event_key = "msg";
  log.always = settings->attributes;
  log.always.emplace_back("logger", "opensandbox.egress");
  if (!settings->sandbox_id.empty()) log.always.emplace_back("sandbox_id", settings->sandbox_id);
  if (auto configured = configure_log(log); !configured) return refuse(configured.error());
  return run([&](net::awaitable<void> stop) { return serve_sidecar(*settings, {}, std::move(stop)); });
}

int start(const std::vector<std::string>& args) {
  if (!args.empty() && args.front() == "--supervise") {
    if (auto configured = configure_log({}); !configured) return refuse(configured.error());
    return supervise({args.begin() + 1, args.end()});
  }
  const auto line = parse(args);
  if (!line) {
    std::fprintf(stderr, "opensandbox-egress: %s\n%s", line.error().message.c_str(), kUsage);
    return 2;
  }
  if (line->help) return std::fputs(kUsage, stdout), 0;
  if (line->version) return std::puts("opensandbox-egress " OSB_VERSION), 0;
  return line->host ? run_host(*line) : run_sidecar();
}

}  // namespace
}  // namespace osb::egress

int main(int argc, char** argv) {
  try {
    return osb::egress::start(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  } catch (const std::exception& bug) {
    std::fprintf(stderr, "opensandbox-egress: %s\n", bug.what());
    return 1;
  }
}
